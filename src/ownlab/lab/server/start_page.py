"""The routes of the start page: its data in one request, the doctor's report, notebooks from addresses, and examples."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

import asyncio
import os
import socket
import time
from functools import partial

from jupyter_core.paths import is_hidden
from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from tornado import web

from ownlab.errors import InputError, OwnlabError
from ownlab.lab.environments.records import Environments
from ownlab.lab.runtimes.drive import is_drive_path
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.server.page_language import request_language
from ownlab.lab.server.routes import RouteHandler, parse_body
from ownlab.lab.server.snapshot_service import SnapshotService
from ownlab.lab.service.examples import list_examples, place_example
from ownlab.lab.start_page.data_sets import recent_data_sets
from ownlab.lab.start_page.doctor_report import CheckedPython, examine_machine
from ownlab.lab.start_page.recent import Candidate, Outcome, RecentNotebooks
from ownlab.lab.start_page.records import DoctorReport, ListedDataSet, PlacedNotebook, RecentNotebook, StartPage
from ownlab.text import text

__all__ = ["StartService", "start_handlers"]

# The number of recent notebooks on the page.
_RECENT = 8
_DATA_SETS = 6
# Seconds that a request waits for journals to be read; what is not ready then is in the next answer.
_PATIENCE = 1.0
# Seconds after which the machine is examined again, when somebody asks.
_REPORT_SECONDS = 600.0


class OpenRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/notebooks/open."""

    address: str
    folder: str = ""  # JupyterLab's path of the folder to save it in


class ExampleRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/examples."""

    name: str


class StartService:
    """What the start pages of one server show. Nothing is read before a page asks."""

    def __init__(self, contents: OwnlabContents, snapshots: SnapshotService) -> None:
        self._contents, self._snapshots = contents, snapshots
        self._recent = RecentNotebooks(contents.root_dir, contents.journals)
        self._report: DoctorReport | None = None
        self._examination: asyncio.Task[DoctorReport] | None = None

    async def page(self) -> StartPage:
        """Return what is known now."""
        candidates = await asyncio.to_thread(self._recent.candidates, _RECENT)
        outcomes = await self._outcomes(candidates)
        recent = await asyncio.to_thread(self._describe, candidates, outcomes)
        examples = await asyncio.to_thread(list_examples)
        if not self._is_fresh():
            self._examine()
        environments = await asyncio.to_thread(self._environments)
        data_sets = await asyncio.to_thread(self._data_sets)
        return StartPage(socket.gethostname(), recent, examples, data_sets, environments, self._report)

    def _data_sets(self) -> tuple[ListedDataSet, ...]:
        try:
            return recent_data_sets(self._contents.root_dir, _DATA_SETS)
        except (OSError, OwnlabError) as exc:  # a scratch disk that is gone must not hide the rest of the page
            self._contents.log.warning("ownlab: the data sets cannot be listed: %s", exc)
            return ()

    def _environments(self) -> Environments | None:
        from ownlab.lab.environments.builds import environment_states  # not while the server starts

        try:
            return environment_states()
        except OwnlabError as exc:  # a damaged list must not hide the rest of the page
            self._contents.log.warning("ownlab: %s %s", exc.message, exc.hint)
            return None

    async def _outcomes(self, candidates: list[Candidate]) -> list[Outcome]:
        """Read the journals of these notebooks, at most for a second: reading goes on afterwards."""
        journals = self._contents.journals
        reads = [
            asyncio.ensure_future(journals.run_in_thread(partial(self._recent.outcome, each.runtime)))
            for each in candidates
            if each.runtime
        ]
        if reads:
            await asyncio.wait(reads, timeout=_PATIENCE)
        return [self._recent.known_outcome(each.runtime) for each in candidates]

    def _describe(self, candidates: list[Candidate], outcomes: list[Outcome]) -> tuple[RecentNotebook, ...]:
        return tuple(map(self._recent.describe, candidates, outcomes))

    # -- the doctor

    async def report(self, *, again: bool) -> DoctorReport:
        """Return the doctor's report, as soon as there is one. `again`: examine the machine now."""
        if again or not self._is_fresh():
            return await asyncio.shield(self._examine())
        assert self._report is not None  # it is fresh
        return self._report

    def _is_fresh(self) -> bool:
        report = self._report
        return report is not None and 0 <= time.time() - report.checked_at < _REPORT_SECONDS

    def _examine(self) -> asyncio.Task[DoctorReport]:
        """Begin to examine the machine, unless that is under way."""
        if self._examination is None or self._examination.done():
            self._examination = asyncio.create_task(self._examined())
            self._examination.add_done_callback(_mark_retrieved)
        return self._examination

    async def _examined(self) -> DoctorReport:
        types = (await self._snapshots.snapshot()).types
        pythons = dict.fromkeys(CheckedPython(each.environment, each.python) for each in types)
        self._report = await asyncio.to_thread(examine_machine, pythons)
        return self._report

    # -- opening notebooks

    async def open_address(self, request: OpenRequest) -> PlacedNotebook:
        """Download a notebook into a folder of the lab."""
        folder = self._folder(request.folder)
        root = os.path.realpath(self._contents.root_dir)

        def work() -> PlacedNotebook:
            from ownlab.lab.remote_notebooks.importer import import_address  # most servers never need it

            imported = import_address(request.address, folder)
            return PlacedNotebook(os.path.relpath(imported.path, root).replace(os.sep, "/"), imported.colab)

        return await asyncio.to_thread(work)

    async def open_example(self, request: ExampleRequest, language: str) -> PlacedNotebook:
        """Copy an example into the lab's folder, unless it is there."""
        root = os.path.realpath(self._contents.root_dir)
        path = await asyncio.to_thread(place_example, root, request.name, language)
        return PlacedNotebook(path.replace(os.sep, "/"))

    def _folder(self, path: str) -> str:
        """Return the folder at JupyterLab's path; the lab's own one for a path in the drive."""
        contents = self._contents
        folder: str = contents._get_os_path("" if is_drive_path(path) else path.strip("/"))
        real, root = os.path.realpath(folder), os.path.realpath(contents.root_dir)
        inside = real == root or real.startswith(os.path.join(root, ""))
        if not inside or not os.path.isdir(real) or (is_hidden(folder, contents.root_dir) and real != root):
            raise InputError(text("There is no folder {folder} in this lab.", folder=path))
        return real


def _mark_retrieved(examination: asyncio.Task[DoctorReport]) -> None:
    """A failure is shown to the page that asks for the report; asyncio must not log it if none does."""
    if not examination.cancelled():
        examination.exception()


class StartBase(RouteHandler):
    """Base of the routes of the start page."""

    auth_resource = "contents"

    @property
    def start_page(self) -> StartService:
        """The service of this server."""
        service: StartService = self.settings["ownlab_start_page"]
        return service


class StartHandler(StartBase):
    """GET /ownlab/api/start."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return what the start page shows."""
        await self.answer(self.start_page.page())


class DoctorHandler(StartBase):
    """GET /ownlab/api/doctor."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the doctor's report; with again=1 of a new examination."""
        await self.answer(self.start_page.report(again=self.get_query_argument("again", "") == "1"))


class OpenHandler(StartBase):
    """POST /ownlab/api/notebooks/open."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Save the notebook at an address in the lab's folder."""
        await self.answer(self._open())

    async def _open(self) -> PlacedNotebook:
        return await self.start_page.open_address(parse_body(self.request.body, OpenRequest))


class ExampleHandler(StartBase):
    """POST /ownlab/api/examples."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Copy an example, in the language of the page, into the lab's folder."""
        await self.answer(self._open())

    async def _open(self) -> PlacedNotebook:
        example = parse_body(self.request.body, ExampleRequest)
        return await self.start_page.open_example(example, request_language(self.request))


def start_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return pairs of route (below the server's base URL) and handler."""
    return [
        (r"/ownlab/api/start", StartHandler),
        (r"/ownlab/api/doctor", DoctorHandler),
        (r"/ownlab/api/notebooks/open", OpenHandler),
        (r"/ownlab/api/examples", ExampleHandler),
    ]
