// Runs on the audio thread: plays chunks of 16-bit samples in order. A model sends audio
// faster than it is played, so most of an answer waits here.

const START_SECONDS = 0.12; // wait for this much audio, so that late chunks leave no gap
const MAX_WAIT_SECONDS = 0.25; // but play shorter sounds after this time
const MAX_SECONDS = 600;

/**
 * The processor playback takes an Int16Array at the rate of its context, or 'clear', which
 * stops at once. It posts { isPlaying } when that changes, and { isFull: true } when it drops
 * a chunk because ten minutes of audio are waiting.
 */
class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this.clear();
    this.isPlaying = false;
    this.port.onmessage = ({ data }) => (data === 'clear' ? this.clear() : this.add(data));
  }

  clear() {
    this.chunks = [];
    this.at = 0; // in the first chunk
    this.waiting = 0; // samples
    this.waited = 0; // samples since the first chunk after a pause
  }

  add(samples) {
    if (this.waiting + samples.length > MAX_SECONDS * sampleRate) {
      this.port.postMessage({ isFull: true });
      return;
    }
    this.chunks.push(samples);
    this.waiting += samples.length;
  }

  process(_, [[out]]) {
    const hasStarted = this.isPlaying && this.waiting > 0;
    if (this.waiting > 0 && !hasStarted) this.waited += out.length;
    const isReady = hasStarted || this.waiting >= START_SECONDS * sampleRate || this.waited >= MAX_WAIT_SECONDS * sampleRate;
    if (isReady && this.waiting > 0) this.fill(out);
    this.report(isReady && this.waiting > 0);
    return true;
  }

  fill(out) {
    for (let i = 0; i < out.length && this.chunks.length; i++) {
      out[i] = this.chunks[0][this.at++] / 32768;
      this.waiting--;
      if (this.at < this.chunks[0].length) continue;
      this.chunks.shift();
      this.at = 0;
    }
    this.waited = 0;
  }

  report(isPlaying) {
    if (isPlaying === this.isPlaying) return;
    this.isPlaying = isPlaying;
    this.port.postMessage({ isPlaying });
  }
}

registerProcessor('playback', Playback);
