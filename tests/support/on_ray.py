"""Run commands of pointsman one after the other on a Ray of this process: JSON in argv, their output as JSON.

In a process of its own, so that what Ray leaves open at its end warns in no test.
"""

import json
import sys

import ray
from typer.testing import CliRunner

from pointsman.cli import app


def run(arguments: list[str]) -> str:
    ran = CliRunner().invoke(app, arguments)
    if ran.exception:
        raise ran.exception
    return ran.stdout


if __name__ == "__main__":
    ray.init(
        num_cpus=1,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    import pointsman.batch.sessions

    setattr(pointsman.batch.sessions, "_PART", int(sys.argv[1]))  # noqa: B010 - several parts of a few records
    said = [run(arguments) for arguments in json.loads(sys.argv[2])]
    ray.shutdown()
    sys.stdout.write(json.dumps(said) + "\n")
