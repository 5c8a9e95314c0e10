"""When hosts_test.py is skipped and when it fails: with an `ip` in front of the real one that says what kernels say."""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# $1.. of ip, which says so and fails; anything else succeeds.
FAKE = '''#!/bin/sh
echo "$*" >> "%(log)s"
case "$*" in %(on)s) echo '%(says)s' >&2; exit %(code)d ;; esac
'''


def outcome(folder, on, says, code):
    """The exit code and output of hosts_test.py, and the commands it gave to ip."""
    log = os.path.join(folder, "log")
    open(log, "w").close()
    for program, text in (("ip", FAKE % dict(log=log, on=on, says=says, code=code)), ("tc", "#!/bin/sh\n"), ("unshare", "#!/bin/sh\n")):
        path = os.path.join(folder, program)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)
    # Not root's business here: whether ip is asked at all.
    program = "import os, runpy, sys; os.geteuid = lambda: 0; sys.argv[1:] = ['none', 'none']; runpy.run_path(%r)" % os.path.join(HERE, "hosts_test.py")
    done = subprocess.run([sys.executable, "-c", program], env=dict(os.environ, PATH=folder + ":" + os.environ["PATH"]),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    with open(log) as file:
        return done.returncode, done.stdout, file.read()


with tempfile.TemporaryDirectory() as folder:
    for says in ("mount --make-shared /run/netns failed: Invalid argument", 'mkdir /run/netns failed: Read-only file system',
                 "Open network namespace: Operation not permitted", "mount --bind failed: Permission denied"):
        code, output, asked = outcome(folder, '"netns add"*', says, 1)
        assert code == 0 and output.startswith("skipped: ") and says in output, output
        assert "netns delete" in asked, asked  # nothing is left, whatever was made
    code, output, _ = outcome(folder, '*"type bridge"*', "Error: Unknown device type.", 2)
    assert code == 0 and output.startswith("skipped: "), output
    # What no kernel says where it refuses is a failure, and so is a refusal once there is such a host.
    for on, says in (('"netns add"*', 'Cannot create namespace file "/run/netns/x": File exists'),
                     ('"netns add"*-switch', "mount --make-shared /run/netns failed: Invalid argument")):
        code, output, _ = outcome(folder, on, says, 1)
        assert code == 1 and "FAILED" in output and says in output and "skipped" not in output, (code, output)
print("passed")
