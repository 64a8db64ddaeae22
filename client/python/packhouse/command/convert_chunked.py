"""packhouse convert-chunked."""

from __future__ import annotations

import click

from packhouse.command.arguments import option


@click.command("convert-chunked")
@click.argument("folder")
@option("--output", required=True, metavar="DIR", help="The new folder")
def command(folder: str, output: str) -> None:
    """Make numpy files of the Parquet files of a graph in DGL's chunked layout.

    They are for packhouse partition, packhouse-partition and packhouse graph import. Other files stay
    where they are. FOLDER has metadata.json.
    """
    from packhouse.files import chunked_parquet

    converted = chunked_parquet.convert(folder, output)
    print(f"{output}: {converted:,} Parquet files converted")
