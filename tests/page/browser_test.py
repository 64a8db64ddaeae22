"""The page in Chromium: each view with real data, without any, and with the server gone.

One server with data and one browser for all cases. Screenshots are kept in the folder that
PACKHOUSE_SCREENSHOTS names, to be looked at.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import importlib.util
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request
from typing import Any, Callable, Iterator

import grpc
import numpy as np
import pytest

from etcd_process import EtcdProcess
from replica_process import DATASET, cluster, copied_folders

from packhouse import (
    BatchFeedback,
    Client,
    CostBalanced,
    EdgeRows,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    NodeRows,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
)
from packhouse.files import npz
from packhouse.v1 import histogram_pb2, histogram_pb2_grpc, packing_pb2, packing_pb2_grpc

webdriver = pytest.importorskip("selenium.webdriver", reason="python3-selenium is not installed")

from selenium.common.exceptions import (  # noqa: E402
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
    pytest.skip("chromium or chromedriver is not installed", allow_module_level=True)

SHARED = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA", "/nowhere"))
VIEWS = ("overview", "sizes", "plan", "epochs", "data")
LIMITS = {"nodes": 768, "edges": 2560, "graphs": 40}
DESKTOP = (1280, 900)
PHONE = (390, 844)


def graphs() -> GraphTable:
    """Real proteins, where they are; else random graphs."""
    real = SHARED / "graphs" / "tu_PROTEINS.npz"
    if real.exists():
        return npz.load(real)
    generator = np.random.default_rng(0)
    nodes = generator.integers(1, 60, 1000)
    arrays = {"x": [generator.random((n, 4), np.float32) for n in nodes]}
    edges = [generator.integers(0, n, (2, 3 * n)).astype(np.int32) for n in nodes]
    path = pathlib.Path(os.environ["PYTEST_TMP"]) / "random.npz"
    np.savez(
        path,
        node_offsets=np.concatenate([[0], np.cumsum(nodes)]),
        edge_offsets=np.concatenate([[0], np.cumsum([e.shape[1] for e in edges])]),
        edge_index=np.concatenate(edges, axis=1),
        x=np.concatenate(arrays["x"]),
    )
    return npz.load(path)


def observe_molecules(client: Client) -> None:
    """The histogram of molhiv, where it is; else one of random sizes like its own."""
    real = SHARED / "hist" / "molhiv_train.csv"
    if real.exists():
        with open(real, encoding="ascii") as file:
            rows = [list(map(int, row)) for row in list(csv.reader(file))[1:]]
    else:
        generator = np.random.default_rng(1)
        drawn = np.clip(generator.lognormal(3.1, 0.45, 800).astype(int), 2, 200)
        rows = [[int(n), 2 * int(n) + 2 * int(generator.integers(0, 4)), 40] for n in drawn]
        # The largest of all, which limits below it leave out.
        rows.append([222, 502, 1])
    sizes = np.repeat([row[:2] for row in rows], [row[2] for row in rows], axis=0)
    client.histograms.observe("molecules", sizes.astype(np.uint32))


def make_source_graph(client: Client) -> None:
    schema = SourceGraphSchema(
        [SourceNodeSet("paper", [SourceColumn("x", "float32", (8,))])],
        [SourceEdgeSet("cites", "paper", "paper")],
    )
    client.source_graphs.create("citations", schema, max_bytes=1 << 30)
    rows = [
        NodeRows("paper", np.arange(100), {"x": np.ones((100, 8), np.float32)}),
        EdgeRows("cites", np.arange(99), np.arange(1, 100)),
    ]
    client.source_graphs.append("citations", rows)
    client.source_graphs.seal("citations")


def make_drift(client: Client) -> None:
    """An open data set of which the later graphs are larger."""
    schema = GraphSchema(("nodes",), ())
    client.datasets.create("growing", schema)
    generator = np.random.default_rng(2)
    for low in (10, 40):
        for _ in range(10):
            sizes = generator.integers(low, low + 20, (500, 1)).astype(np.uint32)
            client.datasets.append("growing", GraphTable(schema, sizes))


def report_costs(client: Client) -> None:
    """A model that takes 2 ms, and 3 µs for each row."""
    client.feedback.report("gin/h100", [
        BatchFeedback({"nodes": rows, "graphs": 8}, 2e-3 + 3e-6 * rows, 1000 * rows)
        for rows in (256, 512, 768, 1024, 2048)
    ] + [BatchFeedback({"nodes": 1 << 20, "graphs": 8}, out_of_memory=True)])


@contextlib.contextmanager
def loading(address: str) -> Iterator[None]:
    """A job of three ranks, one of which is far behind, and one of two workers; all in progress."""
    with contextlib.ExitStack() as stack:
        for rank, steps in enumerate((12, 11, 2)):
            loader = stack.enter_context(contextlib.closing(Loader(
                address, dataset="proteins", job="ranked-run", seed=1, rank=rank, num_ranks=3,
                limits=LIMITS, padding="graph", order=CostBalanced("edges"),
                lane="off" if rank == 2 else "required",
            )))
            loader.set_epoch(0)
            batches = iter(loader)
            stack.callback(batches.close)  # type: ignore[attr-defined]
            for _ in range(steps):
                next(batches)
        for worker in ("gpu-a", "gpu-b"):
            loader = stack.enter_context(contextlib.closing(Loader(
                address, dataset="proteins", job="dynamic-run", seed=1, worker=worker,
                limits=LIMITS, padding="graph",
            )))
            loader.set_epoch(0)
            batches = iter(loader)
            stack.callback(batches.close)  # type: ignore[attr-defined]
            for _ in range(4):
                next(batches)
        yield


@contextlib.contextmanager
def streaming(address: str) -> Iterator[None]:
    """A stream that names no histogram, and has had more graphs than the server keeps of it."""
    requests: queue.Queue[packing_pb2.PackRequest | None] = queue.Queue()
    requests.put(packing_pb2.PackRequest(open={"limits": {"capacities": [
        {"component": "nodes", "rows": 100}, {"component": "edges", "rows": 400},
    ]}}))
    nodes = np.random.default_rng(3).integers(2, 50, 20_000)
    sizes = np.stack([nodes, 3 * nodes], axis=1).astype("<u4")
    requests.put(packing_pb2.PackRequest(
        sizes={"num_graphs": len(sizes), "counts": sizes.tobytes()}
    ))
    requests.put(packing_pb2.PackRequest(flush={"token": 1}))
    with grpc.insecure_channel(address) as channel:
        call = packing_pb2_grpc.PackingServiceStub(channel).Pack(iter(requests.get, None))
        while next(call).WhichOneof("message") != "flushed":
            pass
        yield
        requests.put(None)


class Page:
    """The browser, at the page of a server."""

    def __init__(self, browser: Any, shots: pathlib.Path) -> None:
        self.browser = browser
        self.shots = shots
        self.origin = ""

    def resize(self, size: tuple[int, int]) -> None:
        self.browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False},
        )

    def dark(self, is_dark: bool) -> None:
        feature = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def open(self, server: LocalServer, address: str) -> None:
        self.origin = f"http://{server.http_address}"
        # Another page first, so that the script starts anew.
        self.browser.get("about:blank")
        self.browser.get(f"{self.origin}/#/{address}")

    def one(self, selector: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def until(self, holds: Callable[[], Any], what: str, seconds: float = 20) -> Any:
        wait = WebDriverWait(
            self.browser, seconds, 0.02,
            ignored_exceptions=(StaleElementReferenceException, ElementNotInteractableException),
        )
        return wait.until(lambda _: holds(), what)

    def see(self, text: str) -> None:
        """Waits until the text is there."""
        self.until(lambda: text in self.one("body").text, f"{text!r} in: {self.one('body').text}")

    def settle(self) -> None:
        """Waits until nothing is asked and nothing moves."""
        self.until(
            lambda: self.browser.execute_script(
                "const last = performance.getEntriesByType('resource').pop();"
                "return !last || performance.now() - last.responseEnd > 300"
                " || !/api/.test(last.name) || /overview|job|state/.test(last.name)"
            ),
            "the page is quiet",
        )

    def shoot(self, name: str) -> None:
        size = self.browser.execute_script(
            "return [document.documentElement.clientWidth, document.body.scrollHeight]"
        )
        clip = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], 4000), "scale": 1}
        taken = self.browser.execute_cdp_cmd(
            "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True}
        )
        (self.shots / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))

    def open_blank(self) -> None:
        """Leaves the page, so that it asks nothing any more: to be called before its server ends, else
        the console gets refusals in a later test.
        """
        self.browser.get("about:blank")

    def complaints(self) -> list[str]:
        """What the console has got since the last call."""
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def findings(self) -> list[str]:
        """What axe finds that is serious or worse."""
        found = importlib.util.find_spec("axe_playwright_python")
        if found is None or not found.submodule_search_locations:
            pytest.skip("axe-playwright-python is not installed: environments.py makes it")
        script = pathlib.Path(found.submodule_search_locations[0]) / "axe.min.js"
        if not self.browser.execute_script("return 'axe' in window"):
            self.browser.execute_script(script.read_text(encoding="utf-8"))
        result = self.browser.execute_async_script(
            "axe.run(document).then(arguments[arguments.length - 1])"
        )
        return [
            f"{each['id']} ({each['impact']}): {each['help']}: "
            + "; ".join(node["html"] for node in each["nodes"][:4])
            for each in result["violations"]
            if each["impact"] in ("serious", "critical")
        ]


@pytest.fixture(scope="module", name="server")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    os.environ["PYTEST_TMP"] = str(tmp_path_factory.mktemp("graphs"))
    with LocalServer(data_dir=tmp_path_factory.mktemp("data"), log=subprocess.DEVNULL) as server:
        with Client(server.address) as client:
            table = graphs()
            client.datasets.create("proteins", table.schema, max_bytes=1 << 28)
            client.datasets.append("proteins", [table])
            client.datasets.seal("proteins")
            observe_molecules(client)
            make_source_graph(client)
            make_drift(client)
            report_costs(client)
        with loading(server.address), streaming(server.address):
            yield server


@pytest.fixture(scope="module", name="page")
def page_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    shots = pathlib.Path(
        os.environ.get("PACKHOUSE_SCREENSHOTS") or tmp_path_factory.mktemp("page")
    )
    shots.mkdir(parents=True, exist_ok=True)
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--force-prefers-reduced-motion",
                     f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.chrome.service.Service(shutil.which("chromedriver"))
    browser = webdriver.Chrome(service=service, options=options)
    try:
        page = Page(browser, shots)
        page.resize(DESKTOP)
        yield page
    finally:
        browser.quit()


# What is seen of the data in each view.
ADDRESSES = {
    "overview": ("overview", ["Workers of epochs", "Who waits for whom", "Memory", "data sets",
                              "shared memory"]),
    "sizes": ("sizes?source=histogram/molecules&limit=nodes:444&limit=edges:1004",
              ["proved optimal", "next-fit", "rows of a batch"]),
    "plan": ("plan?source=dataset/proteins&limit=nodes:1240&limit=edges:4196",
             ["What binds", "Patterns:", "exactly full"]),
    "epochs": ("epochs?job=ranked-run", ["By rank", "Stragglers", "rank 2", "behind the others",
                                       "% of a step", "times a shuffle's", "Batches go by",
                                       "shared memory", "gRPC"]),
    "data": ("data", ["proteins", "citations", "Source graphs: 1",
                      "Data sets: 2", "sizes changed", "gin/h100", "1 batch out of memory"]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_shows_real_data(page: Page, server: LocalServer, view: str) -> None:
    address, texts = ADDRESSES[view]
    page.complaints()
    for look, size, dark in (("light", DESKTOP, False), ("dark", DESKTOP, True),
                             ("phone", PHONE, False)):
        page.resize(size)
        page.dark(dark)
        page.open(server, address)
        for text in texts:
            page.see(text)
        if view == "data":
            page.browser.execute_script(
                "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
            )
        page.settle()
        page.shoot(f"{view}-{look}")
        assert page.findings() == [], look
        if look == "phone":
            wide = page.browser.execute_script("return document.documentElement.scrollWidth")
            assert wide <= PHONE[0], "the page scrolls sideways"
    page.resize(DESKTOP)
    page.dark(False)
    assert page.complaints() == []


def test_views_have_addresses_and_the_keyboard_reaches_them(
    page: Page, server: LocalServer
) -> None:
    page.open(server, "overview")
    page.see("Workers of epochs")
    for view in VIEWS[1:]:
        link = page.one(f"#view-{view}")
        link.send_keys(Keys.ENTER)
        page.until(lambda: f"#/{view}" in page.browser.current_url, view)
        # A screen reader is told what is shown now.
        page.until(lambda: page.browser.switch_to.active_element.tag_name == "h1", "the heading")
    page.browser.back()
    page.until(lambda: "#/epochs" in page.browser.current_url, "back")


def packs_of(page: Page) -> int:
    return int(page.one("#packs").text.replace(",", ""))


def limits_of(page: Page) -> dict[str, int]:
    """Those in the address."""
    fragment = urllib.parse.urlsplit(page.browser.current_url).fragment
    values = urllib.parse.parse_qs(fragment.partition("?")[2])
    return {name: int(rows) for name, _, rows in (v.rpartition(":") for v in values["limit"])}


def test_dragged_limits_have_the_plan_of_the_command_line(
    page: Page, server: LocalServer, tmp_path: pathlib.Path
) -> None:
    if "PACKHOUSE_CLI" not in os.environ:
        pytest.skip("PACKHOUSE_CLI does not name the command line")
    page.complaints()
    page.open(server, "sizes?source=histogram/molecules&limit=nodes:444&limit=edges:1004")
    page.see("next-fit")

    def check() -> dict[str, Any]:
        """The figures that are shown are those of the command that is shown."""
        shown = [c.text for c in page.browser.find_elements(By.CSS_SELECTOR, ".command code")
                 if "packhouse plan" in c.text]
        command = shown[0].replace("packhouse ", os.environ["PACKHOUSE_CLI"] + " ")
        output = subprocess.run(
            f"{command} --json", shell=True, cwd=tmp_path, check=True, capture_output=True,
            text=True,
        ).stdout
        plan = json.loads(output[output.index("\n{") if "\n{" in output else output.index("{"):])
        best = plan["best"]
        page.until(lambda: page.one("#receipt").text == best["receipt"],
                   f"{page.one('#receipt').text} is {best['receipt']}")
        assert packs_of(page) == best["packs"]
        bound = page.one("#bound").text
        assert bound == f"{best['lower_bound']:,}, by {best['lower_bound_name']}"
        return best

    first = check()
    # By the keyboard: 16 rows less.
    handle = page.one("#limit-x")
    for _ in range(2):
        handle.send_keys(Keys.SHIFT, Keys.ARROW_LEFT)
    page.until(lambda: limits_of(page)["nodes"] == 428, "the address has the limits")
    assert page.one("#limit-x").get_attribute("aria-valuenow") == "428"
    second = check()
    assert second["packs"] > first["packs"]
    # By the mouse.
    grip = page.one("#limit-x .grip")
    ActionChains(page.browser).click_and_hold(grip).move_by_offset(-15, 0).release().perform()
    page.until(lambda: 222 < limits_of(page)["nodes"] < 428, "the limit has moved")
    check()
    grip = page.one("#limit-y .grip")
    ActionChains(page.browser).click_and_hold(grip).move_by_offset(0, -40).release().perform()
    page.until(lambda: limits_of(page)["edges"] > 1004, "the limit has moved")
    check()
    # What no graph of the largest size fits has no plan, and says why.
    field = page.one("#rows-nodes")
    field.clear()
    field.send_keys("100")
    page.see("Some graphs exceed these limits alone.")
    # A point of the frontier sets all limits.
    page.see("rows of a batch")

    def choose() -> str:
        point = page.browser.find_elements(By.CSS_SELECTOR, ".point")[-1]
        of_point: str = point.get_attribute("aria-label")
        point.send_keys(Keys.ENTER)
        return of_point

    # The search may still be drawing its points anew.
    label = page.until(choose, "a point takes a key")
    chosen = {name: int(rows.replace(",", "")) for name, rows in
              re.findall(r"(nodes|edges) ([\d,]+)", label)}
    page.until(lambda: limits_of(page) == chosen, f"{chosen} in the address")
    check()
    assert page.complaints() == []


def stream_number(server: LocalServer) -> str:
    """Of the only stream that is open."""
    while True:
        url = f"http://{server.http_address}/api/sources?view=number"
        with urllib.request.urlopen(url, timeout=20) as answer:
            if answer.status == 200:
                (stream,) = json.load(answer)["streams"]
                return str(stream["number"])


def test_an_open_streams_sizes_are_shown_and_planned_for(page: Page, server: LocalServer) -> None:
    page.complaints()
    number = stream_number(server)
    page.open(server, f"sizes?source=stream/{number}&limit=nodes:100&limit=edges:400")
    for text in ("A sample of the 20,000 graphs that have come: 8,192 graphs of 48 sizes",
                 "the largest has 49 nodes, 147 edges", "proved optimal", "next-fit"):
        page.see(text)
    names = page.one("#source").text
    assert re.search(rf"stream {number} of \S+ \(20,000 graphs\)", names), names
    # No command line has these sizes.
    assert not page.browser.find_elements(By.CSS_SELECTOR, ".command")
    page.one("#again").send_keys(Keys.ENTER)
    page.see("proved optimal")
    page.settle()
    page.shoot("sizes-stream")
    assert page.findings() == []
    page.open(server, f"plan?source=stream/{number}&limit=nodes:100&limit=edges:400")
    page.see("What binds")
    page.open(server, "sizes?source=stream/77")
    page.see("no open stream has this number")
    assert page.complaints() == []


def test_drift_and_costs_are_those_of_the_command_line(page: Page, server: LocalServer) -> None:
    if "PACKHOUSE_CLI" not in os.environ:
        pytest.skip("PACKHOUSE_CLI does not name the command line")
    page.complaints()
    page.open(server, "data")
    page.see("sizes changed")
    page.browser.execute_script(
        "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
    )

    def told(name: str, words: str) -> Any:
        """What the command that is shown says."""
        shown = [c.text for c in page.browser.find_elements(By.CSS_SELECTOR, ".command code")]
        (command,) = (text for text in shown if words in text and name in text)
        output = subprocess.run(
            [os.environ["PACKHOUSE_CLI"], *command.split()[1:], "--json"], check=True,
            capture_output=True, text=True,
        ).stdout
        return json.loads(output)

    drift = told("growing", "datasets show")["drift"]
    assert abs(drift["first_graph"] - 5000) <= 500
    text = page.one("#dataset-growing").text
    assert f"at about graph {drift['first_graph']:,}, found at {drift['found_graph']:,}" in text
    component = drift["components"]["nodes"]
    assert f"{component['reference_mean']:.1f}" in text and f"{component['mean']:.1f}" in text
    assert "sizes changed" not in page.one("#dataset-proteins").text
    costs = told("gin/h100", "feedback show")
    assert costs["num_out_of_memory"] == 1
    # An id with a slash is no plain selector.
    text = page.one('[id="model-gin/h100"]').text
    assert f"{costs['num_reports']} reports, 1 batch out of memory" in text
    assert f"each batch {1e3 * costs['fixed_seconds']:.2f} ms" in text, text
    assert page.complaints() == []


def test_without_data_each_view_says_what_to_do(page: Page) -> None:
    page.complaints()
    with LocalServer(log=subprocess.DEVNULL) as server:
        for view, text in {
            "overview": "The server keeps nothing",
            "sizes": "There are no sizes yet",
            "plan": "There is nothing to plan for",
            "epochs": "No job has loaded an epoch yet",
            "data": "The server keeps nothing",
        }.items():
            page.open(server, view)
            page.see(text)
            page.settle()
            page.shoot(f"{view}-empty")
            assert page.findings() == [], view
        page.open_blank()
    assert page.complaints() == []


POLICY = """
version: 1
roles:
- {role: owner, principals: [maker], namespaces: ["*"]}
- {role: viewer, principals: [alice], namespaces: [team]}
"""


def test_a_token_shows_what_its_holder_may_see(page: Page, tmp_path: pathlib.Path) -> None:
    tokens = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("maker", "alice", "eve")}
    (tmp_path / "tokens").write_text("".join(f"{n} {t}\n" for n, t in tokens.items()))
    (tmp_path / "policy.yaml").write_text(POLICY)
    with LocalServer(
        arguments=("--token-file", str(tmp_path / "tokens"), "--http-auth",
                   "--policy", str(tmp_path / "policy.yaml")),
        log=subprocess.DEVNULL,
    ) as server:
        addend = histogram_pb2.MergeHistogramRequest().addend
        addend.tuples = np.array([[3, 4], [5, 6]], "<u4").tobytes()
        addend.counts = np.array([7, 8], "<u8").tobytes()
        with grpc.insecure_channel(server.address) as channel:
            stub = histogram_pb2_grpc.HistogramServiceStub(channel)
            for name in ("team/mine", "other/theirs"):
                request = histogram_pb2.MergeHistogramRequest(histogram=name, addend=addend)
                # Over plain text the client itself would show no token.
                stub.MergeHistogram(request, metadata=(("authorization", "Bearer maker"),))
        page.open(server, "sizes")
        page.see("refused")
        for token, answer in (("eve", "gives principal 'eve' no right"), ("alice", "team/mine")):
            field = page.one("#token")
            page.until(field.is_displayed, "the field for a token")
            assert page.findings() == []
            field.send_keys(token, Keys.ENTER)
            page.see(answer)
        names = page.one("#source").text
        assert "team/mine" in names and "theirs" not in names
        # It is kept for this tab, and used for plans.
        page.browser.refresh()
        page.see("proved optimal")
        page.browser.execute_script("sessionStorage.clear()")
        page.open_blank()


def test_the_server_that_has_a_job_is_told(page: Page, tmp_path: pathlib.Path) -> None:
    page.complaints()
    folders = copied_folders(tmp_path, 2, 300)
    with (
        EtcdProcess(tmp_path / "etcd") as etcd,
        cluster(etcd, folders, tmp_path / "key", 3) as replicas,
        Loader(
            replicas[0].address, dataset=DATASET, job="shared-run", worker="gpu", seed=1,
            limits={"nodes": 64, "edges": 64, "graphs": 8},
        ) as loader,
    ):
        next(iter(loader))
        with Client(replicas[0].address) as client:
            owner = client.jobs.get("shared-run").owner
        assert owner in [replica.advertised for replica in replicas]
        for replica in replicas:
            # The list says so on every server, soon after the job has begun.
            page.open(replica, "epochs")
            page.see(owner)
            assert "shared-run" in page.one("main").text
            page.shoot("epochs-shared")
            assert page.findings() == []
            page.one("#job-shared-run").send_keys(Keys.ENTER)
            page.see(f"with the server at {owner}")
            page.settle()
            # Only the owner knows who works on it.
            assert ("1 worker now" in page.one("main").text) == (replica.advertised == owner)
            assert page.findings() == []
        page.open_blank()
    # Another server's refusal is in the console, and nothing else.
    assert [each for each in page.complaints() if "503" not in each] == []


@pytest.mark.parametrize(
    "address",
    [*(f"{view}?source={kind}/{'gone' * 30}" for view in ("sizes", "plan")
       for kind in ("dataset", "histogram")),
     f"epochs?job={'gone' * 30}"],
)
def test_a_link_to_something_gone_fits_a_narrow_screen(
    page: Page, server: LocalServer, address: str
) -> None:
    page.resize((320, 640))
    try:
        page.open(server, address)
        page.see("gonegone")
        page.settle()
        page.shoot(f"{address.split('?')[0]}-gone-narrow")
        wide = "return document.documentElement.scrollWidth"
        assert page.browser.execute_script(wide) <= 320
    finally:
        page.resize(DESKTOP)


# As an upgraded server would: other answers to the same questions.
OTHER_ANSWER = """
const ask = window.fetch;
window.fetch = async (path, ...rest) => {
  const answer = await ask(path, ...rest);
  if (!String(path).startsWith(arguments[0])) return answer;
  return new Response(JSON.stringify({...await answer.json(), ...arguments[1]}));
};
"""


def test_a_tab_from_before_an_upgrade_says_so(page: Page, server: LocalServer) -> None:
    for path, change, text in (
        ("api/state", {"page": "another", "version": "77.0"}, "updated to 77.0"),
        # It has what this page does not know how to draw.
        ("api/overview", {"history": {}}, "cannot show"),
    ):
        page.open(server, "overview")
        page.see("live")
        page.browser.execute_script(OTHER_ANSWER, path, change)
        page.see(text)
        page.until(lambda: page.one("#state").text == "old", "no longer live")
        page.shoot("overview-old")
        assert page.findings() == []
        page.one("#load-anew").send_keys(Keys.ENTER)
        page.until(lambda: page.one("#state").text == "live", "live again")
        assert not page.one("#stale").is_displayed()
    page.complaints()


def test_a_server_that_is_not_ready_is_not_live(page: Page) -> None:
    page.complaints()
    with LocalServer(arguments=("--lame-duck", "1h"), log=subprocess.DEVNULL) as server:
        for view in VIEWS:
            page.open(server, view)
            page.until(lambda: page.one("#state").text == "live", "live")
        os.kill(server.pid, signal.SIGTERM)
        # Also in a view that asks nothing by itself.
        for view in VIEWS:
            page.see("The server is draining")
            page.until(lambda: page.one("#state").text == "draining", "draining")
            page.open(server, view)
        page.shoot("data-draining")
        assert page.findings() == []
        os.kill(server.pid, signal.SIGKILL)
        page.open_blank()
    assert [each for each in page.complaints() if "ERR_CONNECTION" not in each] == []


def test_a_server_that_is_gone_is_told_of_and_comes_back(page: Page) -> None:
    page.open_blank()
    page.complaints()
    server = LocalServer(log=subprocess.DEVNULL)
    server.start()
    try:
        for view in VIEWS:
            page.open(server, view)
            page.see("live")
            page.settle()
            http = server.http_address
            server.stop()
            # Whether the view asks by itself or not.
            page.see("The server does not answer.")
            page.shoot(f"{view}-gone")
            assert page.findings() == [], view
            server = LocalServer(
                arguments=("--http-listen", http), log=subprocess.DEVNULL
            )
            server.start()
            page.until(lambda: page.one("#state").text == "live", "live again")
        # Refused connections are in the console, and nothing else.
        assert [each for each in page.complaints() if "ERR_CONNECTION" not in each] == []
    finally:
        page.open_blank()
        server.stop()
