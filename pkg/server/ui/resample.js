// Converts mono audio between sample rates, in blocks, with a low-pass filter. The
// capture worklet uses it: browsers deliver 44.1 or 48 kHz, and models take 16 kHz.

const LOBES = 12; // zero crossings of the filter on each side
const STEPS = 256; // entries of the table of the filter between two input samples
const SPACE = 4096; // input samples that a resampler holds

/** A Resampler converts a stream of samples from one rate to another. */
export class Resampler {
  constructor(from, to) {
    const cutoff = Math.min(1, to / from);
    this.step = from / to;
    this.reach = Math.ceil(LOBES / cutoff);
    this.table = filterTable(cutoff, this.reach);
    this.input = new Float32Array(SPACE);
    this.length = this.reach; // silence before the first sample
    this.at = this.reach; // the position of the next output sample in input
  }

  /** push adds a block of input, and calls emit with each output sample. */
  push(block, emit) {
    for (let from = 0; from < block.length;) {
      const to = Math.min(block.length, from + SPACE - this.length);
      this.input.set(block.subarray(from, to), this.length);
      this.length += to - from;
      from = to;
      for (; this.at + this.reach < this.length; this.at += this.step) emit(this.sample());
      this.discard();
    }
  }

  sample() {
    const { at, reach, table, input } = this;
    let sum = 0;
    for (let i = Math.ceil(at - reach); i <= at + reach; i++) sum += input[i] * table[Math.round(Math.abs(i - at) * STEPS)];
    return sum;
  }

  // discard removes the input that no later sample needs.
  discard() {
    const used = Math.floor(this.at) - this.reach;
    if (used <= 0) return;
    this.input.copyWithin(0, used, this.length);
    this.length -= used;
    this.at -= used;
  }
}

// filterTable is one side of a sinc filter with a Hann window, normalized so that the
// volume stays the same.
function filterTable(cutoff, reach) {
  const table = new Float32Array(reach * STEPS + 2);
  for (let i = 0; i <= reach * STEPS; i++) {
    const x = i / STEPS;
    const phase = Math.PI * cutoff * x;
    table[i] = cutoff * (i === 0 ? 1 : Math.sin(phase) / phase) * (0.5 + 0.5 * Math.cos((Math.PI * x) / reach));
  }
  return table;
}
