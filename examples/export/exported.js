// Exported functions as functions of JavaScript.

const ARRAYS = {
  float64: Float64Array, float32: Float32Array, bool: Uint8Array, int8: Int8Array, uint8: Uint8Array,
  int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array,
  uint64: BigUint64Array,
};

// The C library's elementary functions: those of Math, and what has another name or other values there.
const FUNCTIONS = {
  ...Object.fromEntries(Object.getOwnPropertyNames(Math).map((name) => [name, Math[name]])),
  exp2: (x) => 2 ** x,
  fmod: (x, y) => x % y,
  pow: (x, y) => (x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x ** y),
};
const SINGLE = Object.fromEntries(Object.entries(FUNCTIONS).map(([name, each]) => [`${name}f`, each]));

// Load NAME.wasm, of which NAME.json tells the arguments and results. The function that is returned takes arrays of
// numbers in C order, and returns one typed array for each result.
export async function load(name) {
  const description = await (await fetch(`${name}.json`)).json();
  const {instance} = await WebAssembly.instantiateStreaming(fetch(`${name}.wasm`), {env: {...SINGLE, ...FUNCTIONS}});
  const code = instance.exports;
  let end = code.__heap_base.value;
  const placed = (each) => {
    const kind = ARRAYS[each.dtype], length = each.shape.reduce((a, b) => a * b, 1);
    const start = Math.ceil(end / 8) * 8;
    end = start + length * kind.BYTES_PER_ELEMENT;
    return {start, length, path: each.path, view: () => new kind(code.memory.buffer, start, length)};
  };
  const given = description.arguments.map(placed), made = description.results.map(placed);
  const workspace = end;
  const missing = end + description.workspace_bytes - code.memory.buffer.byteLength;
  if (missing > 0) code.memory.grow(Math.ceil(missing / 65536));
  const addresses = [...given, ...made].map((each) => each.start);
  return (...args) => {
    given.forEach((each, k) => {
      if (args[k].length !== each.length) throw new RangeError(`${each.path} has ${each.length} numbers`);
      each.view().set(args[k]);
    });
    if (code[name](...addresses, workspace)) throw new Error(`${name} has no result for these arguments`);
    return made.map((each) => each.view().slice());
  };
}
