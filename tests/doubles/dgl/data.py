"""See dgl."""


class DGLDataset:
    """Calls `process` of a data set as it is made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process()

    def process(self) -> None:
        raise NotImplementedError
