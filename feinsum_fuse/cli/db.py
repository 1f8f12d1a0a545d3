"""``db``: what is recorded; summaries, the best known schedule of a workload, facts as text, and forgetting one."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..arguments import AT_LEAST_ONE, SECONDS
from ..progress import Stage
from ..whole_file import write_whole
from .console import check_places, emit, emit_json, note, passing, progress, table
from .inputs import check_variables, with_dtypes
from .options import DeviceOption, DtypeOption, FilesArgument, JsonOption, SetOption, UrlOption, dtypes, obeying, variables

if TYPE_CHECKING:
    import pyopencl as cl

    from ..archive.facts.fact import Fact
    from ..formats.spec import Spec

_ABOUT = "What is recorded: stats, best, export, import, forget, make, serve."
command = typer.Typer(help=_ABOUT, no_args_is_help=True, rich_markup_mode=None)


@command.command()
def stats(url: UrlOption = None, as_json: JsonOption = False) -> None:
    """Count the facts of a database by device and outcome."""
    from ..archive.tables.address import locate
    from ..archive.text.lines import export_facts, read_facts

    address = locate(url)
    records = list(read_facts(export_facts(url), str(address)))
    counts = Counter((str(record.device), str(record.measurement.outcome)) for record in records)
    cascades = {record.cascade_key for record in records}
    if as_json:
        rows = [{"device": device, "outcome": outcome, "facts": count} for (device, outcome), count in sorted(counts.items())]
        emit_json({"database": str(address), "facts": len(records), "cascades": len(cascades), "by_device_and_outcome": rows})
        return
    emit(f"{address}: {len(records)} facts about {len(cascades)} cascades")
    if counts:
        emit("")
        table(["device", "outcome", "facts"], [[device, outcome, str(count)] for (device, outcome), count in sorted(counts.items())])


@command.command()
def best(
    files: FilesArgument,
    set_: SetOption = None,
    device: DeviceOption = None,
    dtype: DtypeOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="How many facts.")] = 5,
    schedule: Annotated[bool, typer.Option("--schedule", help="Print the best schedule, too.")] = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """The best known schedules of the workload in FILES on a device, best first; a mapping in FILES is not looked at.

    Where `run` rewrites the workload for its default mapping, those of the rewritten one are among them, and say so.
    """
    import feinsum_fuse as ff

    from ..device.catalogue import find_device

    given = variables(set_)
    check_variables(files, given)
    spec = with_dtypes(ff.load(*files, variables=given, progress=passing), dtypes(dtype))
    with Stage("looking up", progress):
        facts = known_facts(spec, find_device(device), url)[:limit]
    if as_json:
        emit_json([_fact_data(fact) for fact in facts])
        return
    if not facts:
        emit("nothing is recorded about this workload on this device, or on one of its family")
        return
    table(["fact", "found", "trust", "median", "date", "device"], [_row(fact) for fact in facts])
    if schedule:
        emit(f"\n{facts[0].schedule}")


def known_facts(spec: Spec, device: cl.Device, url: str | None) -> list[Fact]:
    """Facts about the workload, and about the one that its default mapping is of."""
    import feinsum_fuse as ff

    from ..archive.facts.question import Fit
    from ..device.catalogue import target
    from ..mappings.forms.joined_axes import with_joined_axes
    from ..mappings.forms.suited import suited

    given = ff.cascade(spec)
    taken = suited(with_joined_axes(given, target(device)), target(device))
    facts = list(ff.query(spec, device, url=url))
    if taken is not given:
        after = f"of the workload after {', '.join(map(str, taken.rewritings))}"
        others = ff.query(taken, device, url=url)
        facts += [dataclasses.replace(fact, detail="; ".join(filter(None, (after, fact.detail)))) for fact in others]
    order = list(Fit)

    def quality(fact: Fact) -> tuple[int, bool, float]:
        measured = fact.known.measurement
        exact = fact.found is Fit.exact
        return order.index(fact.found), exact and measured.cache_state != "warm", measured.median if exact else 0.0

    return sorted(facts, key=quality)


def _row(fact: Fact) -> list[str]:
    from ..device.timing.measurement import time_text

    known = fact.known
    found = f"{fact.found}{f' ({fact.detail})' if fact.detail else ''}"
    measured = known.measurement
    return [known.id[:12], found, str(fact.trust), time_text(measured.median), measured.provenance.date, str(known.device)]


def _fact_data(fact: Fact) -> dict[str, object]:
    known = fact.known
    return {
        "fact": known.id,
        "found": str(fact.found),
        "detail": fact.detail,
        "source": fact.source,
        "trust": str(fact.trust),
        "origin": known.origin,
        "median_s": known.measurement.median,
        "date": known.measurement.provenance.date,
        "device": str(known.device),
        "function": None if known.function is None else {"name": known.function.name, "version": known.function.version},
        "best_at": [list(sizes) for sizes in fact.best_at],
        "schedule": None if fact.schedule is None else json.loads(fact.schedule.to_json()),
    }


@command.command("export")
def export_(
    output: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to write JSON lines. Default: standard output.")] = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write all facts as JSON lines, sorted, so that two exports can be compared line by line."""
    from .. import ArchiveError
    from ..archive.text.lines import export_facts

    lines = list(export_facts(url, progress=progress))
    if output is None:
        emit_json([json.loads(line) for line in lines]) if as_json else emit("\n".join(lines))
        return
    try:
        write_whole(output, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise ArchiveError(f"cannot write {output}: {error.strerror}") from error
    emit_json({"file": str(output), "facts": len(lines)}) if as_json else note(f"wrote {len(lines)} facts to {output}")


@command.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, as `db export` writes them.")],
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the facts of a file, all or none; nothing in it is executed, and facts that are there already are left alone."""
    from ..archive.text.lines import import_facts

    merged = import_facts(file, url, progress=progress)
    emit_json(dataclasses.asdict(merged)) if as_json else emit(merged)


@command.command()
def forget(
    fact: Annotated[str, typer.Argument(metavar="ID", help="The fact's identifier as `db best` shows it, or how that begins.")],
    undo: Annotated[bool, typer.Option("--undo", help="Let a fact that ships with the package, or a file's, be answered again.")] = False,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a fact be answered no more: one that was recorded is deleted, one that ships with the package is passed over from now on."""
    from ..archive.facts.forgetting import forget, remember

    done = remember(fact, url) if undo else forget(fact, url)
    if as_json:
        emit_json(dataclasses.asdict(done))
    else:
        emit(f"{'remembered' if undo else 'forgotten'}: {done}")


@command.command()
def serve(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Listen there. Default: for this machine alone.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=1, max=65535, help="Where a browser finds it.")] = 8180,
    url: UrlOption = None,
) -> None:
    """Show an archive in a browser until interrupted: search, facts with their history and kernel, two side by side, failures, export.

    It only reads. Needs the extra serve.
    """
    from ..archive.tables.address import locate
    from ..pages.browser.site import is_loopback, serve

    if not is_loopback(host):
        note(f"warning: whoever reaches {host} can read this archive")
    note(f"{locate(url)} on http://{f'[{host}]' if ':' in host else host}:{port}/ until Ctrl-C")
    serve(url, host, port)


@command.command()
def make(
    workloads: Annotated[
        list[str] | None, typer.Argument(metavar="[WORKLOAD]...", help="Workloads by name, family or pattern (`mass*`). Default: all.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the device's file is, or is to be.")] = Path(),
    seconds: Annotated[float, typer.Option("--seconds", callback=obeying(SECONDS), help="Of search for each workload.")] = 60.0,
    measurements: Annotated[
        int, typer.Option("--measurements", callback=obeying(AT_LEAST_ONE), help="Candidates to measure for each workload.")
    ] = 60,
    within: Annotated[
        float, typer.Option("--within", metavar="S", min=0.0, help="Begin no workload after so long; the same command goes on later.")
    ] = math.inf,
    list_: Annotated[bool, typer.Option("--list", help="List the workloads, and do nothing.")] = False,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the facts that ship, for a device: tune standard workloads, and put the fastest of each into the device's file of JSON lines.

    What the file holds already is not tuned again, so that an interrupted run is taken up by the same command. All that is measured on the
    way lies in a database beside the file. `db import` takes the file.
    """
    from ..device.catalogue import DeviceInfo, find_device
    from ..standard.fact_making import FactMaking, facts_file
    from ..standard.workloads import chosen

    wanted = chosen(tuple(workloads or ()))
    if list_:
        emit_json([one.name for one in wanted]) if as_json else emit("\n".join(one.name for one in wanted))
        return
    found = find_device(device)
    file = facts_file(output, DeviceInfo.of(found))
    check_places(output, file)
    making = FactMaking(found, file, str(file.with_suffix(".sqlite3")), seconds, measurements, progress, within)
    done = []
    for one in making.all(wanted):
        done.append(one)
        if not as_json:
            emit(one)
    failed = [one.workload for one in done if one.message]
    if as_json:
        emit_json({"file": str(file), "workloads": [dataclasses.asdict(one) for one in done], "left": len(wanted) - len(done)})
    else:
        note(f"{len(done) - len(failed)} of {len(wanted)} workloads are in {file}")
    if failed:
        raise typer.Exit(3)
