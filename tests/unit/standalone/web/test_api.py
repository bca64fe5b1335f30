"""The API over passes of the daemon's own wiring."""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from flink_autoscaler.standalone.observability.http import MAX_CONNECTIONS
from flink_autoscaler.standalone.web.authorization import AccessRules, Principal, Role
from testkit.builders.web import OPERATOR, TOKEN, VIEWER, WebSite, hanging, operated
from testkit.fakes.flink import Fault

HOSTILE = '<script>alert("x")</script>\'\n' + "n" * 9_900


@pytest.fixture
def web() -> Iterator[WebSite]:
    with operated() as web:
        yield web


def test_a_job_is_shown_as_the_last_pass_found_it(web: WebSite) -> None:
    web.decide("orders")
    web.run(2)

    (job,) = web.get("/jobs")["jobs"]
    detail = web.get("/job", job="main/orders")

    assert (job["job_key"], job["status"], job["phase"], job["decision"]) == (
        "main/orders", "RUNNING", "executed", "hold",
    )  # fmt: skip
    assert job["load"] > 0
    assert job["slots"] == 1
    assert job["lag_limit_seconds"] == 60
    assert job["concerns"] == []
    assert [each["name"] for each in detail["vertices"]] == ["Source: source 0", "work"]
    assert detail["vertices"][1]["inputs"] == [detail["vertices"][0]["vertex_id"]]
    assert len(job["points"]) >= 1


def test_a_pass_is_explained_with_every_term_also_without_a_database(web: WebSite) -> None:
    web.decide("orders")

    listed = web.get("/passes", job="main/orders")["passes"]
    explained = web.get("/pass", job="main/orders")
    first = web.get("/pass", job="main/orders", at_ms=listed[-1]["at_ms"])

    assert listed == sorted(listed, key=lambda each: -each["at_ms"])
    assert explained["is_latest"]
    assert explained["at_ms"] == listed[0]["at_ms"]
    assert explained["explanation"]["vertices"][1]["figures"]["wanted"] >= 1
    assert (first["is_latest"], first["explanation"]["phase"]) == (False, listed[-1]["phase"])


def test_a_poll_of_an_unchanged_fleet_is_answered_without_a_body(web: WebSite) -> None:
    web.run()
    first = web.client.get("/api/v1/jobs")
    again = web.client.get("/api/v1/jobs", headers={"If-None-Match": first.headers["etag"]})
    web.run()
    later = web.client.get("/api/v1/jobs", headers={"If-None-Match": first.headers["etag"]})

    assert (again.status_code, again.content) == (304, b"")
    assert later.status_code == 200


def test_a_pause_over_the_api_stops_the_next_rescale(web: WebSite) -> None:
    web.run()
    order = {"job_key": "main/orders", "order": "pause", "reason": "release 7", "seconds": 3600}
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # as curl -d has it
    given = web.client.post("/api/v1/commands", content=json.dumps(order), headers=form)
    web.run()
    (order,) = web.get("/commands", job="main/orders")["commands"]
    (job,) = web.get("/jobs")["jobs"]

    assert given.json()["is_refused"] is False
    assert (order["order"], order["by"], order["reason"]) == ("pause (both)", "api", "release 7")
    assert job["suspensions"][0]["at_ms"] is not None
    events = web.get("/events", job="orders")["events"]
    assert [each["reason"] for each in events if each["is_command"]] == ["Paused"]


def test_a_pin_that_the_job_cannot_have_is_refused_with_the_figures(web: WebSite) -> None:
    web.decide("orders")
    asked = {"job_key": "main/orders", "order": "pin", "reason": "test", "vertices": {"wrok": 3}}

    refused = web.client.post("/api/v1/commands", json=asked).json()
    forced = web.client.post("/api/v1/commands", json={**asked, "force": True}).json()

    assert refused["is_refused"]
    assert "did you mean 'work'" in refused["text"]
    assert not forced["is_refused"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param({"job_key": "main/nope", "order": "pause", "reason": "x"}, "no cluster has a job", id="no job"),
        pytest.param({"job_key": "main/orders", "order": "pause"}, "say why", id="no reason"),
        pytest.param({"job_key": "main/orders", "order": "explode"}, "order:", id="no such order"),
        pytest.param({"job_key": "main/orders", "order": "pin", "reason": "x"}, "name at least one", id="no vertex"),
        pytest.param(
            {"job_key": "main/orders", "order": "pin", "reason": "x", "vertices": {"work": 0}}, "from 1 to", id="none"
        ),
        pytest.param({"job_key": "main/orders", "order": "resume", "more": 1}, "more:", id="unknown field"),
        pytest.param([], "the request", id="no object"),
    ],
)
def test_an_order_that_cannot_be_meant_is_told_and_does_nothing(web: WebSite, body: object, text: str) -> None:
    web.run()

    answer = web.client.post("/api/v1/commands", json=body)

    assert answer.status_code == 400
    assert text in answer.json()["error"]
    assert web.get("/commands")["commands"] == []


def test_what_if_tells_what_other_options_would_have_come_to_and_changes_nothing(web: WebSite) -> None:
    work = next(iter(web.flink.jobs.values())).vertices[1]
    work.metrics["busyTimeMsPerSecond"] = 600.0
    web.decide("orders")
    puts = web.flink.paths("PUT")

    asked = {"job_key": "main/orders", "options": {"utilization.target": "0.2", "scale-up.max-factor": "100"}}
    found = web.client.post("/api/v1/what-if", json=asked).json()

    (answer,) = [each for each in found["vertices"] if each["name"] == "work"]
    assert answer["would_be"] > answer["decided"]
    assert "job.autoscaler.utilization.target: 0.2" in found["changes"]
    assert web.flink.paths("PUT") == puts


def test_what_if_names_the_nearest_option(web: WebSite) -> None:
    web.decide("orders")

    answer = web.client.post("/api/v1/what-if", json={"job_key": "main/orders", "options": {"utilisation.target": "1"}})

    assert answer.status_code == 400
    assert "did you mean 'job.autoscaler.utilization.target'" in answer.json()["error"]


def test_secrets_are_masked_in_the_configuration_and_in_the_options_of_a_job() -> None:
    with WebSite({"autoscaler.clusters.0.headers.Authorization": "s3cr3t"}) as web:
        web.add("orders", user_config={"job.autoscaler.enabled": "true", "my.password": "s3cr3t"})
        web.run()

        texts = [web.client.get(path).text for path in ("/api/v1/configuration", "/api/v1/job?job=main/orders")]
        texts += [web.client.get(path).text for path in ("/configuration", "/job?job=main/orders")]

    assert not any("s3cr3t" in text for text in texts)
    assert "autoscaler.clusters.0.headers.Authorization" in texts[0]


def test_without_a_token_everybody_may_look_and_nobody_may_order() -> None:
    with WebSite() as web:
        web.add("orders")
        web.run()
        token = web.access.form_token(Principal(Role.VIEWER, "somebody"))

        looks = web.client.get("/api/v1/jobs")
        orders = web.client.post(
            "/api/v1/commands", json={"job_key": "main/orders", "order": "resume"}, headers={"X-Form-Token": token}
        )
        nonsense = web.client.post("/api/v1/commands?more=1", content=b"{", headers={"X-Form-Token": token})

    assert looks.status_code == 200
    assert (orders.status_code, orders.json()["error"][:34]) == (403, "orders need the role operator: see")
    assert (nonsense.status_code, nonsense.json()) == (403, orders.json())


def test_with_a_token_nobody_else_sees_anything_but_the_probes() -> None:
    with WebSite(access=AccessRules(viewer_token="viewers-token", operator_token=TOKEN)) as web:
        codes = {path: web.client.get(path).status_code for path in ("/", "/api/v1/jobs", "/healthz", "/metrics")}
        viewer = web.client.get("/", headers=VIEWER)

    assert codes == {"/": 401, "/api/v1/jobs": 401, "/healthz": 200, "/metrics": 200}
    assert viewer.status_code == 200


BASIC = {"Authorization": "Basic " + base64.b64encode(f"ann:{TOKEN}".encode()).decode()}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({**BASIC}, 403, id="a browser that another page made send a form"),
        pytest.param({**BASIC, "X-Form-Token": "ours", "Origin": "https://evil.example"}, 403, id="another origin"),
        pytest.param({**BASIC, "X-Form-Token": "ours", "Host": "evil.example"}, 421, id="another host"),
        pytest.param({"Authorization": f"Bearer {TOKEN}x"}, 401, id="a forged token"),
        pytest.param({"Authorization": "Bearer"}, 401, id="no token"),
        pytest.param({"Cookie": f"token={TOKEN}", "Authorization": ""}, 401, id="a cookie"),
    ],
)
def test_an_order_that_nobody_of_us_has_sent_is_refused_and_not_carried_out(
    web: WebSite, headers: dict[str, str], status: int
) -> None:
    web.run()
    if headers.get("X-Form-Token") == "ours":
        headers = {**headers, "X-Form-Token": web.access.form_token(Principal(Role.OPERATOR, "ann"))}
    order = {"job_key": "main/orders", "order": "pause", "reason": "x"}

    answer = web.client.post(
        "/api/v1/commands", content=json.dumps(order), headers={"Content-Type": "text/plain", **headers}
    )

    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert "orders" not in answer.json()["error"].replace("orders need", "").replace("orders are", "")
    assert web.get("/commands")["commands"] == []


def test_what_keeps_a_view_never_mixes_up_who_looks() -> None:
    with WebSite(access=AccessRules(viewer_token="viewers-token", operator_token=TOKEN)) as web:
        web.add("orders")
        web.run()
        seen = {
            name: web.client.get("/", headers=headers).text
            for name, headers in {"viewer": VIEWER, "operator": OPERATOR, "ann": BASIC}.items()
        }
        again = web.client.get("/", headers=BASIC).text

    tokens = {name: re.findall('data-form-token="([0-9a-f]{64})"', text) for name, text in seen.items()}
    visitors = (Principal(Role.VIEWER, "api"), Principal(Role.OPERATOR, "api"), Principal(Role.OPERATOR, "ann"))
    assert list(tokens.values()) == [[web.access.form_token(visitor)] for visitor in visitors]
    assert [">viewer<" in seen[name] for name in seen] == [True, False, False]
    assert re.findall('data-form-token="([0-9a-f]{64})"', again) == tokens["ann"]


def test_a_view_is_rendered_anew_when_a_pass_has_ended(web: WebSite) -> None:
    web.run()
    before = web.client.get("/").text
    web.add("payments")
    web.run()

    assert "main/payments" not in before
    assert "main/payments" in web.client.get("/").text


def test_names_are_text_wherever_they_are_shown() -> None:
    with WebSite() as web:
        job = web.add(HOSTILE)
        job.vertices[1].name = HOSTILE[:2000]
        web.run(3)
        key = web.get("/jobs")["jobs"][0]["job_key"]

        pages = [web.client.get(path, params={"job": key}) for path in ("/", "/job", "/pass", "/what-if", "/events")]

    assert [each.status_code for each in pages[1:]] == [200, 200, 200, 200]
    assert not any("<script>alert" in each.text for each in pages)


def test_a_job_that_vanishes_while_it_is_looked_at_is_not_there(web: WebSite) -> None:
    web.run()
    web.flink.jobs.clear()
    web.run()

    assert web.get("/jobs")["jobs"] == []
    assert web.client.get("/job", params={"job": "main/orders"}).status_code == 404
    assert web.client.get("/api/v1/job", params={"job": "main/orders"}).status_code == 404


def test_a_cluster_that_does_not_answer_is_shown_with_its_last_jobs_marked_as_old(web: WebSite) -> None:
    web.run()
    before = web.client.get("/").text
    web.flink.fault("/jobs/overview", Fault.HTML)
    web.run()

    (cluster,) = web.get("/clusters")["clusters"]
    after = web.client.get("/").text

    assert cluster["error"] is not None
    assert cluster["failed_ms"] is not None
    assert [each["job_key"] for each in web.get("/jobs")["jobs"]] == ["main/orders"]
    assert ('class="old"' in before, '<tr class="old">' in after, "does not answer" in after) == (False, True, True)
    assert "Its cluster does not answer" in web.client.get("/job", params={"job": "main/orders"}).text


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_connections_that_hang_hold_up_neither_probes_nor_pages_nor_passes(web: WebSite) -> None:
    web.run()
    with hanging(web.url, 3 * MAX_CONNECTIONS) as clients:
        probes = [httpx.get(f"{web.url}/healthz", timeout=60, trust_env=False).status_code for _ in range(20)]
        report = web.run()
        page = httpx.get(f"{web.url}/", headers=OPERATOR, timeout=60, trust_env=False)
        still_open = [each for each in clients if is_open(each)]

    assert still_open, "the answers came before all that hang were dropped for their age"
    assert probes == [200] * 20
    assert (report.error, page.status_code) == (None, 200)


def test_a_body_that_is_too_long_is_not_read_to_its_end(web: WebSite) -> None:
    answer = web.client.post("/api/v1/what-if", content=b"x" * 1_000_000)

    assert answer.status_code == 413
