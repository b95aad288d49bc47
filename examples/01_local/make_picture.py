"""Draw picture.png; needs the font DejaVu Sans. The picture is committed: run this to change it."""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

LINES = ("TARN serves Triton", "on 3 instances since 2026", "Invoice No. 4711: 1,299.50 EUR")

picture = Image.new("RGB", (720, 280), "#f6f3ea")
pen = ImageDraw.Draw(picture)
font = ImageFont.truetype("DejaVuSans.ttf", 40)
for row, (line, ink) in enumerate(zip(LINES, ("#202020", "#1f3c88", "#7a1f2b"), strict=True)):
    pen.text((30, 30 + 80 * row), line, fill=ink, font=font)
picture.save(Path(__file__).with_name("picture.png"), optimize=True)
