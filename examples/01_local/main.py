"""Recognise the text in a picture with the fleet of tarn.yaml; prints a line for each line."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from tritonclient import http as triton

import tarn

HERE = Path(__file__).parent


def recognise(address: str, picture: Path) -> list[str]:
    """Return the lines of text in *picture*, read by the Triton at *address* (host:port)."""
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    image = triton.InferInput("IMAGE", list(pixels.shape), "UINT8").set_data_from_numpy(pixels)
    with triton.InferenceServerClient(address) as client:
        answer = client.infer("ocr", [image])
    return [line.decode() for line in answer.as_numpy("TEXT")]


def main() -> None:
    """Start the fleet, or attach to it when it runs; it goes on afterwards."""
    picture = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "picture.png"
    cluster = tarn.Cluster(HERE / "tarn.yaml").up().wait(ready=1, timeout="2m")
    ready = [each for each in cluster.status()["instances"] if each["state"] == "ready"]
    print(*recognise(ready[0]["http"], picture), sep="\n")


if __name__ == "__main__":
    main()
