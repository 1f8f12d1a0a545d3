"""The web application: pages about an archive. It has no action that writes, and no page runs a script."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...archive.tables.address import Address, Url, locate
from ...archive.text.lines import line_of
from ...device.timing.outcome import Outcome
from ...errors import ArchiveError, Error
from ...formats.language.caps import shortened
from ..html_text import environment, text
from .fact_page import differing, drawn, kernel_of, shown
from .questions import FACT, LISTING_ORDERS, Browsed, Selection

if TYPE_CHECKING:
    from flask import Flask, Response

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
LOCAL_NAMES = ["localhost", "127.0.0.1", "[::1]"]
"""Under which a browser on this machine asks: a page elsewhere that has its own name lead here is refused."""


def application(url: Url | None = None, *, names: list[str] | None = None) -> Flask:
    """The application over an archive; ``names`` are the hosts that it answers for, by default those of this machine's loopback.

    Raises :class:`~feinsum_fuse.errors.Error` without Flask, and :class:`~feinsum_fuse.errors.ArchiveError` for an address that is none.
    """
    try:
        from flask import Flask
    except ImportError as error:
        raise Error("the browser of an archive needs Flask", hint="Install the extra: pip install 'feinsum_fuse[serve]'.") from error
    app = Flask(__name__, static_folder=None, template_folder=None)
    app.config["TRUSTED_HOSTS"] = LOCAL_NAMES if names is None else names or None
    _add_pages(app, Browsed(locate(url)))
    _add_faults(app)

    @app.after_request
    def _(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return app


def _page(name: str, **values: object) -> str:
    return environment().get_template(name).render(**values)


def _seen(address: Address) -> str:
    """The database as pages name it: a file below the folder in which the server was started by its way from there."""
    here = Path.cwd()
    return str(address.file.relative_to(here) if address.file and address.file.is_relative_to(here) else address)


def _add_pages(app: Flask, archive: Browsed) -> None:
    from flask import Response, request

    place = _seen(archive.address)

    @app.get("/")
    def _list() -> str:
        selection = Selection.of(request.args)
        found = archive.listed(selection)
        lists = {"outcomes": list(Outcome), "orders": list(LISTING_ORDERS), "choices": archive.choices()}
        return _page("facts.html", archive=place, selection=selection, found=found, **lists)

    @app.get("/facts/<fact>")
    def _fact(fact: str) -> str:
        record = archive.record(_known_form(fact))
        return _page("fact.html", archive=place, record=record, parts=shown(record), history=archive.history(record))

    @app.get("/facts/<fact>/kernel")
    def _kernel(fact: str) -> str:
        record = archive.record(_known_form(fact))
        return _page("kernel.html", archive=place, record=record, kernel=kernel_of(record))

    @app.get("/facts/<fact>/history.svg")
    def _history(fact: str) -> Response:
        return Response(drawn(archive.history(archive.record(_known_form(fact)))), mimetype="image/svg+xml")

    @app.get("/compare")
    def _compare() -> str:
        names = request.args.getlist("fact")
        if len(names) != 2:
            raise ArchiveError(f"two facts are compared, and {len(names)} were chosen", hint="Tick two facts of a list.")
        first, second = (archive.record(_known_form(name)) for name in names)
        return _page("compare.html", archive=place, records=(first, second), rows=differing(shown(first), shown(second)))

    @app.get("/failures")
    def _failures() -> str:
        return _page("failures.html", archive=place, kinds=archive.failures())

    @app.get("/export.jsonl")
    def _export() -> Response:
        records = archive.records(Selection.of(request.args))

        def lines() -> Iterator[str]:
            yield from sorted(f"{line_of(record)}\n" for record in records)

        return Response(lines(), mimetype="application/jsonl", headers={"Content-Disposition": 'attachment; filename="facts.jsonl"'})

    @app.get("/favicon.ico")
    def _icon() -> Response:
        return Response(status=204)

    @app.get("/page.css")
    def _style() -> Response:
        return Response(text("page.css"), mimetype="text/css", headers={"Cache-Control": "max-age=3600"})


def _known_form(fact: str) -> str:
    if not FACT.fullmatch(fact):
        raise LookupError(f"{shortened(fact)!r} is no identifier of a fact")
    return fact


def _add_faults(app: Flask) -> None:
    from werkzeug.exceptions import HTTPException

    @app.errorhandler(LookupError)
    def _(error: LookupError) -> tuple[str, int]:
        return _page("fault.html", message=str(error.args[0])), 404

    @app.errorhandler(Error)
    def _(error: Error) -> tuple[str, int]:
        return _page("fault.html", message=str(error)), 400

    @app.errorhandler(HTTPException)
    def _(error: HTTPException) -> tuple[str, int]:
        return _page("fault.html", message=f"{error.name}: {error.description}"), error.code or 500


def serve(url: Url | None, host: str, port: int) -> None:
    """Answer until interrupted. On the loopback only browsers that ask for it by name are answered.

    Raises :class:`~feinsum_fuse.errors.Error` without the extra ``serve``, and where the port cannot be had.
    """
    try:
        import waitress
    except ImportError as error:
        raise Error("the browser of an archive needs waitress", hint="Install the extra: pip install 'feinsum_fuse[serve]'.") from error
    app = application(url, names=None if is_loopback(host) else [])
    try:
        server = waitress.create_server(app, host=host, port=port, threads=4, ident=None)
    except OSError as error:
        raise Error(f"cannot listen on {host} port {port}: {error.strerror or error}", hint="Choose another with --port.") from error
    try:
        server.run()
    finally:
        server.close()


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
