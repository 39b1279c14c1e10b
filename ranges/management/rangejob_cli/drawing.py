"""`manage.py rangejob tree`: the virtual tree of halves, or the nodes that are stored."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError, OutputWrapper
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from jobs.management.arguments import print_json
from ranges import drawing
from ranges.management.rangejob_cli.facts import NODE_COLOURS, in_table
from ranges.management.rangejob_cli.options import find_run
from ranges.states import NodeState

HELP = "the tree of halves with what is done in each"
PARTS = ("processed", "skipped", "failed", "left")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="RUN", help="its id, or how that begins")
    parser.add_argument("--depth", type=int, default=4, metavar="N", help="0 to 10 (4)")
    parser.add_argument(
        "--path",
        default="",
        metavar="PATH",
        help="a block inside: 0 for a left half, 1 for a right",
    )
    parser.add_argument(
        "--nodes",
        action="store_true",
        help="the nodes as they are stored, by who was cut from whom",
    )


def run(stdout: OutputWrapper, options: dict[str, Any]) -> None:
    run = find_run(options["id"])
    if options["nodes"]:
        stored = drawing.lineage(run)
        if options["json"]:
            print_json(stdout, {"nodes": stored})
        else:
            _print(stdout, _lineage(stored))
        return
    if run.lo is None and run.lo_key is None:
        raise CommandError("the run has no range yet: its first step fixes it")
    root = drawing.tree(run, options["depth"], path=options["path"])
    if options["json"]:
        print_json(stdout, root)
    else:
        _print(stdout, _branch(root))


def _branch(block: dict[str, Any]) -> Tree:
    made = Tree(_block(block), guide_style="dim")
    for child in block.get("children", ()):
        made.children.append(_branch(child))
    return made


def _block(block: dict[str, Any]) -> Text:
    state = NodeState(block["state"])
    text = _bounds(block)
    text.append(f"  {state.value}", style=NODE_COLOURS[state])
    parts = [f"{int(block[part]):,} {part}" for part in PARTS if int(block[part])]
    if len(parts) > 1:
        text.append(f"  {', '.join(parts)}", style="dim")
    return text


def _lineage(stored: list[dict[str, Any]]) -> Tree:
    top = Tree(Text(f"{len(stored):,} nodes", style="bold"), guide_style="dim")
    known: dict[int, Tree] = {}
    for node in stored:
        state = NodeState(node["state"])
        text = _bounds(node)
        text.append(f"  {node['kind']} {node['id']} ")
        text.append(state.value, style=NODE_COLOURS[state])
        text.append(f"  {node['rows_ok']:,} rows in {node['leaves']:,} leaves", style="dim")
        if node["error"]:
            line = node["error"][:80].splitlines()[0]
            text.append(f"  {line}", style="red")
        known[node["id"]] = known.get(node["parent"], top).add(text)
    return top


def _bounds(node: dict[str, Any]) -> Text:
    end = "" if node["hi"] is None else in_table(node["hi"])
    return Text(_printable(f"[{in_table(node['lo'])}, {end})"))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _print(stdout: OutputWrapper, tree: Tree) -> None:
    console = Console(width=None if stdout.isatty() else 240, force_terminal=stdout.isatty())
    with console.capture() as captured:
        console.print(tree)
    stdout.write("\n".join(line.rstrip() for line in captured.get().splitlines()))
