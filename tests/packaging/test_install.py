"""The wheel in somebody's own project, set up word for word as docs/install.md says."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

CHECKOUT = Path(__file__).resolve().parents[2]


OPEN_PAGES = """
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from jobs.models import Job
settings.ALLOWED_HOSTS = ["testserver"]
client = Client()
client.force_login(User.objects.get_or_create(username="anna", is_staff=True, is_superuser=True)[0])
job = Job.objects.get()
pages = ["/admin/", "/admin/jobs/job/?state=all", f"/admin/jobs/job/{job.id}/", "/admin/jobs/queue/"]
answers = [client.get(page) for page in pages]
assert all('class="side"' in answer.text for answer in answers)
print(*(answer.status_code for answer in answers))
"""
IS_THEMED = """
assert not any("unfold" in answer.text for answer in answers)
answer = client.get("/admin/")
assert answer.status_code == 200 and "unfold/css/styles" in answer.text
print("themed")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder), str(CHECKOUT)]
    run(command, CHECKOUT)
    (made,) = folder.glob("django_coppice-*.whl")
    return made


@pytest.fixture(scope="module")
def documented() -> list[str]:
    """The Python blocks of the guide: settings, handler, enqueue."""
    guide = (CHECKOUT / "docs" / "install.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(blocks) == 3
    return blocks


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, and what it depends on from this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"])
    python = folder / "bin" / "python"
    # Without an index: fails unless our pins satisfy all that the wheel asks for.
    run([str(python), "-m", "pip", "install", "--quiet", "--no-index", str(wheel)], folder)
    return python


@pytest.fixture(scope="module")
def project(python: Path, documented: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings, handler, _ = documented
    folder = tmp_path_factory.mktemp("project")
    run([str(python), "-m", "django", "startproject", "shop", str(folder)], folder)
    run([str(python), "manage.py", "startapp", "orders"], folder)
    with (folder / "shop" / "settings.py").open("a") as file:
        file.write("\n" + settings)
    (folder / "orders" / "handlers.py").write_text(handler)
    return folder


def run(command: list[str], folder: Path, **variables: str) -> str:
    ours = ("PYTHONPATH", "DJANGO_SETTINGS_MODULE", "DATABASE_URL")
    kept = {key: value for key, value in os.environ.items() if key not in ours}
    done = subprocess.run(
        command, cwd=folder, env={**kept, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_carries_the_apps_with_pages_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    apps = {top for top in tops if not top.endswith(".dist-info")}
    assert apps == {"jobs", "ranges", "worker"}
    assert {f"{app}/py.typed" for app in apps} <= set(names)
    licences = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    vendored = {str(path.relative_to(CHECKOUT)) for path in CHECKOUT.glob("static/**/LICENSE")}
    assert licences == {"LICENSE"} | vendored
    for source in ("templates", "static"):
        carried = {n.removeprefix("jobs/") for n in names if n.startswith(f"jobs/{source}/")}
        own = {
            str(path.relative_to(CHECKOUT))
            for path in (CHECKOUT / source).rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }
        assert own <= carried


def test_the_wheel_is_found_and_not_this_checkout(python: Path, project: Path) -> None:
    where = run([str(python), "-c", "import jobs; print(jobs.__file__)"], project)
    assert where.startswith(str(python.parents[1]))


def test_a_job_runs_in_a_project_set_up_as_the_guide_says(
    python: Path, project: Path, documented: list[str], database_url: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
    server = conninfo_to_dict(database_url)
    variables = {"PGHOST": str(server["host"]), "PGUSER": str(server["user"])}

    def manage(*arguments: str) -> str:
        return run([str(python), "manage.py", *arguments], project, **variables)

    manage("check")
    manage("migrate")
    assert manage("makemigrations", "--check", "--dry-run") == "No changes detected\n"
    manage("shell", "-c", documented[2])
    manage("runworker", "--burst")
    ask = "from jobs.models import Job; print(*Job.objects.values_list('status', 'result'))"
    assert manage("shell", "-v", "0", "-c", ask) == "('completed', 'Hello, Alice!')\n"
    assert manage("shell", "-v", "0", "-c", OPEN_PAGES) == "200 200 200 200\n"
    assert "console.css" in manage("findstatic", "jobs/console/console.css")
    # As it is beside an admin that stays as it was.
    with (project / "shop" / "settings.py").open("a") as file:
        file.write('\nINSTALLED_APPS.remove("jobs.console.config.ConsoleConfig")\n')
        file.write('INSTALLED_APPS.insert(0, "django.contrib.admin")\n')
    with (project / "shop" / "urls.py").open("a") as file:
        file.write("\nfrom jobs.console.site import ConsoleSite\n")
        file.write('urlpatterns += [path("console/", ConsoleSite(name="console").urls)]\n')
    manage("check")
    beside = OPEN_PAGES.replace("/admin/", "/console/")
    assert manage("shell", "-v", "0", "-c", beside) == "200 200 200 200\n"
    stock = OPEN_PAGES.replace('"/admin/", ', "")
    assert manage("shell", "-v", "0", "-c", stock) == "200 200 200\n"
    # And beside one with a theme.
    with (project / "shop" / "settings.py").open("a") as file:
        file.write('\nINSTALLED_APPS.insert(0, "unfold")\n')
    manage("check")
    themed = beside + IS_THEMED
    assert manage("shell", "-v", "0", "-c", themed) == "200 200 200 200\nthemed\n"
