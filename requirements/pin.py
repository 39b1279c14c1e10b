"""Write base.txt, demo.txt and dev.txt: the newest release of all that the .in files need.

Each .txt includes the one before it and lists only what it adds. Run by `make pins`.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    earlier: dict[str, str] = {}
    included = ""
    for name in ("base", "demo", "dev"):
        pins = resolve(HERE / f"{name}.in", earlier)
        lines = [f"# Made from {name}.in by `make pins`; do not edit."]
        lines += [f"-r {included}"] if included else []
        lines += [f"{key}=={pins[key]}" for key in sorted(pins) if key not in earlier]
        (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")
        earlier, included = pins, f"{name}.txt"


def resolve(wanted: Path, earlier: dict[str, str]) -> dict[str, str]:
    fixed = [f"{name}=={version}" for name, version in earlier.items()]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed"]
    command += ["--quiet", "--report", "-", "-r", str(wanted), *fixed]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = [each["metadata"] for each in json.loads(done.stdout)["install"]]
    return {re.sub(r"[-_.]+", "-", each["name"]).lower(): each["version"] for each in found}


if __name__ == "__main__":
    main()
