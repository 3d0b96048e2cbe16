"""What is on a picture."""

import struct
import zlib


def pixels(png: bytes) -> list[tuple[int, int, int]]:
    """Every third pixel of a picture, read without help: PNG of 8 bits a channel, not interlaced."""
    place, data, width, channels = 8, b"", 0, 0
    while place < len(png):
        (length,), kind = struct.unpack(">I", png[place : place + 4]), png[place + 4 : place + 8]
        body = png[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, _, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (depth, interlaced) == (8, 0)
            channels = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            data += body
        place += 12 + length
    raw, stride = zlib.decompress(data), width * channels
    above, found = bytearray(stride), []
    for start in range(0, len(raw), stride + 1):
        row, how = bytearray(raw[start + 1 : start + 1 + stride]), raw[start]
        unfiltered(row, above, how, channels)
        above = row
        found += [tuple(row[at : at + 3]) for at in range(0, stride, 3 * channels)]
    return found


def unfiltered(row: bytearray, above: bytearray, how: int, channels: int) -> None:
    """Undo the filter of one row of a PNG, in place."""
    for at in range(len(row)):
        left = row[at - channels] if at >= channels else 0
        up, corner = above[at], above[at - channels] if at >= channels else 0
        if how == 4:
            guess = left + up - corner
            near = min((left, up, corner), key=lambda value: abs(guess - value))
        else:
            near = (0, left, up, (left + up) // 2)[how]
        row[at] = (row[at] + near) % 256
