import json, math, struct, sys

GOLDEN, WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1
TYPES = {  # bytes, mask, base
    "f16": (2, 0x03FF, 0x3C00), "bf16": (2, 0x007F, 0x3F80),
    "f32": (4, 0x007FFFFF, 0x3F800000), "f64": (8, (1 << 52) - 1, 0x3FF0000000000000),
    "i8": (1, 0xFF, 0), "i16": (2, 0xFFFF, 0), "i32": (4, 0xFFFFFFFF, 0), "i64": (8, WORD, 0),
    "u8": (1, 0xFF, 0), "bool": (1, 0x01, 0),
}

def scatter(h):
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & WORD
    h = (h ^ h >> 27) * 0x94D049BB133111EB & WORD
    return h ^ h >> 31

def mix(*parts):
    h = 0
    for v in parts:
        h = scatter(h + GOLDEN + v & WORD)
    return h

def word(s, i):
    x = (s + i) * GOLDEN & WORD
    return x ^ x >> 32

def spread(w, a):
    return word(w ^ a, 0) * (a | 1) & WORD

def words(data):  # the last one is the rest
    return [int.from_bytes(data[i:i + 8], "little") for i in range(0, len(data) // 8 * 8 + 1, 8)]

def repeated(bits, size):
    return int.from_bytes(bits.to_bytes(size, "little") * (8 // size), "little")

def ranges(share, rows, n, elems, s):  # of elements that change; share is of a million
    width = elems // n if rows and n else 1
    n = n if rows else elems
    stay = share > 500_000
    share = 1_000_000 - share if stay else share
    j, decided = 0, 0
    while decided < n:
        place = scatter(s + (j + 1) * GOLDEN & WORD) * 1_000_000 >> 64
        at = min(max((j * 1_000_000 + place) // share, decided), n)
        start, end = (decided, at) if stay else (at, min(at + 1, n))
        yield from range(start * width, end * width)
        j, decided = j + 1, at + 1

def changed(data, dtype, shape, change, s):
    share, _, rows = change.partition("/")
    size, mask, _ = TYPES[dtype]
    exponent = (~mask & (1 << 8 * size - 1) - 1) if mask >> 8 * size - 1 == 0 else 0
    out = bytearray(data)
    for i in ranges(round(float(share[:-1]) * 10_000), rows, shape[0] if shape else 1, len(data) // size, s):
        w = int.from_bytes(data[i * size:(i + 1) * size], "little")
        x = max(word(s, i) & mask, 1)
        if exponent and w & exponent == exponent:
            x = 1 << 8 * size - 1
        out[i * size:(i + 1) * size] = (w ^ x).to_bytes(size, "little")
    return bytes(out)

def first(layout, seed, normal):
    tensors = []
    for t, (_, dtype, shape) in enumerate(layout):
        size, mask, base = TYPES[dtype]
        s, n = mix(seed, WORD, WORD, t), math.prod(shape)
        if normal and dtype in ("f16", "bf16", "f32", "f64"):
            data = b""
            for i in range(n):
                x = sum(scatter(s + (5 * i + k) * GOLDEN & WORD) >> 4 for k in range(1, 6)) - 5 * 2**59
                x = float(x) * 2.0**-65
                if dtype == "f64":
                    data += struct.pack("<d", x)
                    continue
                data += struct.pack("<f", x)
                if dtype == "f16":
                    data = data[:-4] + struct.pack("<e", *struct.unpack("<f", data[-4:]))
                if dtype == "bf16":
                    bits = int.from_bytes(data[-4:], "little")
                    data = data[:-4] + (bits + 0x7FFF + (bits >> 16 & 1) >> 16).to_bytes(2, "little")
        else:
            mask, base = repeated(mask, size), repeated(base, size)
            data = b"".join((word(s, i) & mask | base).to_bytes(8, "little") for i in range(n * size // 8 + 1))
        tensors.append(data[:n * size])
    return tensors

def digest(tensors, layout):  # no length varies
    d = 0
    for t, data in enumerate(tensors):
        shape = layout[t][2]
        a = mix(t, shape[0] if shape else 1, len(data))
        *whole, rest = words(data)
        x = sum(spread(w, a + (i + 1) * GOLDEN & WORD) for i, w in enumerate(whole))
        d = mix(d, x + spread(rest, a) & WORD)
    return d

def train(model, down, up, seed, r, c, change="100%"):
    same, d, update = down == up, digest(model, down), []
    for t, (_, dtype, shape) in enumerate(up):
        size, mask, base = TYPES[dtype]
        mask, base = repeated(mask, size), repeated(base, size)
        s, n = mix(seed, r, c, t), size * math.prod(shape)
        if same and change != "100%":
            update.append(changed(model[t], dtype, shape, change, s))
            continue
        if same:
            numbers = [w ^ word(s, i) & mask for i, w in enumerate(words(model[t]))]
        else:
            s = mix(d, s)
            numbers = [word(s, i) & mask | base for i in range(n // 8 + 1)]
        update.append(b"".join(x.to_bytes(8, "little") for x in numbers)[:n])
    return update

if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        v = json.load(f)
    model = [bytes.fromhex(t) for t in v["model"]]
    assert digest(model, v["down"]) == int(v["digest_of_model"], 16)
    for layout, updates in ((v["down"], v["updates_like_down"]), (v["up"], v["updates_like_up"])):
        for client, update in enumerate(updates):
            got = train(model, v["down"], layout, v["seed"], v["round"], client)
            assert [t.hex() for t in got] == update
    for client, update in enumerate(v["updates_with_change"]):
        got = train(model, v["down"], v["down"], v["seed"], v["round"], client, v["change"])
        assert [t.hex() for t in got] == update
    got = train(model, v["down"], v["down"], v["seed"], v["round"], 0, v["change_of_rows"])
    assert [t.hex() for t in got] == v["first_update_with_change_of_rows"]
    d = int(v["digest_of_average"], 16)
    got = [changed(model[t], dtype, shape, v["change"], mix(d, t)) for t, (_, dtype, shape) in enumerate(v["down"])]
    assert [t.hex() for t in got] == v["next_model_by_the_server_with_change"]
    assert [t.hex() for t in first(v["down"], v["seed"], False)] == v["model"]
    assert [t.hex() for t in first(v["down"], v["seed"], True)] == v["normal_first_values"]
    print("as expected")
