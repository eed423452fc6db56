// Runs on the audio thread: turns the sound of the microphone into chunks of 16-bit
// samples, and measures its level.

import { Resampler } from './resample.js';

/**
 * The processor capture posts { samples, level }: an Int16Array of options.samples samples at
 * options.rate, and their peak from 0 to 1. It posts nothing while the message { isMuted: true }
 * applies.
 */
class Capture extends AudioWorkletProcessor {
  constructor({ processorOptions: { rate, samples } }) {
    super();
    this.resampler = new Resampler(sampleRate, rate);
    this.size = samples;
    this.isMuted = false;
    this.mono = new Float32Array(128);
    this.add = this.add.bind(this);
    this.begin();
    this.port.onmessage = ({ data }) => {
      this.isMuted = data.isMuted;
      this.begin();
    };
  }

  begin() {
    this.chunk = new Int16Array(this.size);
    this.filled = 0;
    this.peak = 0;
  }

  process([channels]) {
    if (channels.length && !this.isMuted) this.resampler.push(this.mix(channels), this.add);
    return true;
  }

  // mix returns the average of the channels.
  mix(channels) {
    if (channels.length === 1) return channels[0];
    const [{ length }] = channels;
    if (this.mono.length !== length) this.mono = new Float32Array(length);
    for (let i = 0; i < length; i++) this.mono[i] = channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length;
    return this.mono;
  }

  add(sample) {
    const limited = Math.max(-1, Math.min(1, sample));
    this.peak = Math.max(this.peak, Math.abs(limited));
    this.chunk[this.filled++] = Math.round(limited * 32767);
    if (this.filled < this.size) return;
    this.port.postMessage({ samples: this.chunk, level: this.peak }, [this.chunk.buffer]);
    this.begin();
  }
}

registerProcessor('capture', Capture);
