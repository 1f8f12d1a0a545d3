"""Everything that this kit can find out on a GPU, in nine minutes: ``python3 gpu.py``.

Needs CPython 3.11 to 3.13 (the version that the kit was made for) on Linux and x86-64, and the driver of the GPU. Makes a virtual
environment beside this file from the kit's wheels, without a network, and runs ``feinsum-fuse survey`` in it. PyTorch and JAX are compared
with where the Python that runs this has them. Options are the survey's:
``--seconds 300``, ``--device NAME``, ``--output FILE``. ``--venv FOLDER`` is where the environment is made.
"""

import os
import platform
import re
import site
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 540.0
LEAST_SECONDS = 20.0


def wheels(folder):
    """The wheels in a folder of the kit; none where there is no such folder."""
    place = os.path.join(HERE, folder)
    return sorted(os.path.join(place, name) for name in os.listdir(place) if name.endswith(".whl")) if os.path.isdir(place) else []


def wanted_python():
    """(3, minor) of the Python that the kit's wheels are for."""
    found = sorted({int(minor) for name in wheels("wheels") for minor in re.findall(r"-cp3(\d+)-cp3\1-", os.path.basename(name))})
    if len(found) != 1:
        sys.exit(f"error: {os.path.join(HERE, 'wheels')} has no wheels of one version of Python.\nMake the kit anew: make wheels")
    return (3, found[0])


def check_machine():
    """End with one sentence where wheels for Linux on x86-64 are of no use."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        sys.exit(f"error: the kit's wheels are for Linux on x86-64; this is {sys.platform} on {platform.machine()}.")
    if platform.python_implementation() != "CPython":
        sys.exit(f"error: the kit's wheels are for CPython; this is {platform.python_implementation()}.")


def the_other_python(version):
    """Run this script by the Python that the wheels are for, or say that there is none."""
    wanted = f"{version[0]}.{version[1]}"
    if os.environ.get("FEINSUM_FUSE_KIT") != wanted:
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            path = os.path.join(folder, f"python{wanted}")
            if os.access(path, os.X_OK):
                # What is called so may be a stub that only names other installations.
                asked = [path, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
                answer = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
                if answer.stdout.decode().strip() == wanted:
                    os.environ["FEINSUM_FUSE_KIT"] = wanted
                    os.execv(path, [path, os.path.abspath(__file__), *sys.argv[1:]])
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    hint = f"Make the kit for this one: make wheels WHEELS_PYTHON={own}"
    this = platform.python_version()
    sys.exit(f"error: the kit's wheels are for Python {wanted}; this is {this}, and there is no python{wanted}.\n{hint}")


def option(arguments, name, default):
    """The value of an option, and the other arguments."""
    rest, value = [], default
    given = iter(arguments)
    for word in given:
        if word == name:
            value = next(given, default)
        elif word.startswith(name + "="):
            value = word[len(name) + 1:]
        else:
            rest.append(word)
    return value, rest


def install(folder):
    """A virtual environment with the kit's wheels, unless it is there already; its Python."""
    python = os.path.join(folder, "bin", "python")
    mark = os.path.join(folder, "complete")
    if os.path.exists(mark):
        return python
    print(f"installing into {folder}", flush=True)
    # Without ensurepip, which some distributions leave out: pip is run from its wheel.
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
    everything = wheels("wheels") + wheels("wheels-pocl")
    pip = next(path for path in everything if os.path.basename(path).startswith("pip-"))
    command = [python, os.path.join(pip, "pip"), "--quiet", "--disable-pip-version-check", "install"]
    command += ["--no-index", "--no-deps", "--no-compile"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    if subprocess.run(command + everything, env=environment, check=False).returncode:
        sys.exit(f"error: the wheels cannot be installed into {folder}; pip says why above.")
    with open(mark, "w"):
        pass
    return python


def main():
    """Install, and hand over to the survey with the time that is left."""
    begin = time.time()
    check_machine()
    version = wanted_python()
    if sys.version_info[:2] != version:
        the_other_python(version)
    venv, rest = option(sys.argv[1:], "--venv", os.path.join(HERE, "venv"))
    seconds, rest = option(rest, "--seconds", str(SECONDS))
    output, rest = option(rest, "--output", time.strftime("survey-%Y%m%d-%H%M%S.tar.gz"))
    python = install(os.path.abspath(venv))
    try:
        left = max(LEAST_SECONDS, float(seconds) - (time.time() - begin))
    except ValueError:
        sys.exit(f"error: --seconds {seconds} is no number")
    command = [python, "-P", "-m", "feinsum_fuse.cli", "survey", "--seconds", f"{left:.0f}", "--output", output]
    for name in ("examples", "trees", "workloads"):
        command += ["--" + name, os.path.join(HERE, name)]
    # PyTorch and JAX are too large to travel: those of the Python that was started are used.
    for folder in site.getsitepackages():
        if os.path.isdir(folder):
            command += ["--libraries", folder]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    sys.stdout.flush()
    os.execve(python, command + rest, environment)


if __name__ == "__main__":
    main()
