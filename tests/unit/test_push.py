"""What servers of continuous profiling are sent, as Pyroscope and Parca have it in their docs."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from trainings import BEGIN_NS, MS, Training

from pyhybrid.cli import main
from pyhybrid.errors import PyhybridError, UsageError
from pyhybrid.exporters.push import Part, Pusher, parts_of
from pyhybrid.tables.profile import Profile


class Server:
    """Takes what is posted, and answers with `status`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.status = 200
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.asked.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(server.status)
                self.end_headers()
                self.wfile.write(b'{"code": "invalid",\n "message": "no"}')

            def log_message(self, *_: object) -> None:
                pass

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def profile(tmp_path: Path) -> Iterator[Profile]:
    facts = {"rank": 3, "world_size": 8, "hostname": "node7", "start_unix_ns": 10**18}
    training = Training(argv=["python", "train.py"], **facts)
    for _ in range(5):
        training.step(("data", 1), ("forward", 2), ("backward", 3))
    (tmp_path / "big.ranks").mkdir()
    with training.profile(tmp_path / "big.ranks" / "rank-3.pyhybrid.part") as made:
        yield made


def test_a_process_is_a_profile(server: Server, profile: Profile, tmp_path: Path) -> None:
    pusher = Pusher(f"http://me:secret@{server.place}")
    (part,) = parts_of(profile, {"team": "a"})
    assert pusher.send(part) > 100
    ((path, headers, body),) = server.asked
    assert path == "/push.v1.PusherService/Push"
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == f"Basic {base64.b64encode(b'me:secret').decode()}"
    assert "secret" not in pusher.url
    (series,) = body["series"]
    labels = {each["name"]: each["value"] for each in series["labels"]}
    assert labels == {
        "__name__": "process_cpu",
        "service_name": "train.py",
        "host": "node7",
        "run": "big",
        "rank": "3",
        "pid": labels["pid"],
        "team": "a",
    }
    (sample,) = series["samples"]
    written = tmp_path / "a.pb.gz"
    with pytest.raises(SystemExit) as end:
        main(["export", "-f", "pprof", "-o", str(written), profile.path])
    assert end.value.code == 0
    assert base64.b64decode(sample["rawProfile"]) == written.read_bytes()


def test_parca_has_labels_in_a_set(server: Server, profile: Profile) -> None:
    (part,) = parts_of(profile, {})
    Pusher(f"parca+http://{server.place}/prefix/").send(part)
    ((path, _, body),) = server.asked
    assert path == "/prefix/api/profiles/writeraw"
    (series,) = body["series"]
    assert {"name": "rank", "value": "3"} in series["labels"]["labels"]
    assert base64.b64decode(series["samples"][0]["rawProfile"])[:2] == b"\x1f\x8b"


def test_steps_are_profiles_at_their_times(profile: Profile) -> None:
    """Of two steps each; the last one is alone."""
    parts = [*parts_of(profile, {}, 2)]
    assert [part.labels["step"] for part in parts] == ["0", "2", "4"]
    assert [part.duration_ns for part in parts] == [14 * MS, 14 * MS, 7 * MS]
    begins = [part.begin_unix_ns or 0 for part in parts]
    assert [begin - begins[0] for begin in begins] == [0, 14 * MS, 28 * MS]
    a, b = (profile.clock_pairs or [(0, 0)])[0]
    assert begins[0] - (b - a) == BEGIN_NS
    weights = [sum(row.weight_ns for row in part.profile.sampled) for part in parts]
    assert weights == [n * profile.period_ns for n in (14, 14, 7)]


def test_the_command_line(
    server: Server, profile: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        words = ["--push", f"http://{server.place}", "--label", "run=x y"]
        main(["export", "-f", "pprof", *words, profile.path])
    assert end.value.code == 0
    assert capsys.readouterr().err.startswith("pyhybrid: sent 1 profile, ")
    ((_, _, body),) = server.asked
    assert {"name": "run", "value": "x y"} in body["series"][0]["labels"]


def test_what_fails_is_a_line(server: Server, profile: Profile) -> None:
    part = Part(profile, {})
    server.status = 400
    with pytest.raises(PyhybridError, match=r"answers 400: {.*no.*}$") as raised:
        Pusher(f"http://{server.place}").send(part)
    assert "\n" not in str(raised.value)
    with pytest.raises(PyhybridError, match=r"http://127\.0\.0\.1:1/.* takes nothing: "):
        Pusher("http://127.0.0.1:1").send(part)


@pytest.mark.parametrize("url", ["", "host:4040", "ftp://host", "other+http://host", "http://"])
def test_no_such_server(url: str) -> None:
    with pytest.raises(UsageError, match=r"--push takes http://host:port, or one of pyroscope\+"):
        Pusher(url)


@pytest.mark.parametrize(
    "words",
    [
        ["-f", "folded", "--push", "http://a"],
        ["-f", "pprof", "--push", "http://a", "-o", "b"],
        ["-f", "pprof", "--push-steps", "3"],
        ["-f", "pprof", "--label", "a=b"],
        ["-f", "pprof", "--push", "http://a", "--label", "a-b=c"],
    ],
)
def test_words_that_do_not_go_together(words: list[str], profile: Profile) -> None:
    with pytest.raises(SystemExit) as end:
        main(["export", *words, profile.path])
    assert end.value.code == 2
