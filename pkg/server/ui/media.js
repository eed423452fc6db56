// The microphone, the camera and the speaker.

import { toBase64, toSamples, rateOf } from './pcm.js';

const MIC_RATE = 16000;
const CHUNK_SAMPLES = 960; // 60 ms
const ANSWER_RATE = 24000; // of Gemini
const MAX_EARLY = 500; // chunks that arrive before the speaker is open
const MAX_PIXELS = 768; // on the longer side of a camera image
const FRAME_MS = 1000;

/** A MediaError reports why the microphone or camera cannot be used, and what to do. */
export class MediaError extends Error {}

/** A Microphone delivers chunks of 60 ms until it is stopped. */
export class Microphone {
  /** handlers: onChunk(base64), onLevel(0 to 1), and onLost() if the device is removed. */
  constructor(handlers) {
    Object.assign(this, { handlers, isMuted: false });
  }

  /** mimeType is the type of the chunks. */
  get mimeType() {
    return `audio/pcm;rate=${MIC_RATE}`;
  }

  /** start asks for permission, and throws a MediaError without it. */
  async start() {
    const stream = await openDevice('microphone', { audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true } });
    if (this.isStopped) return stopTracks(stream);
    this.stream = stream;
    [this.track] = stream.getAudioTracks();
    this.track.addEventListener('ended', () => this.handlers.onLost());
    this.context = new AudioContext();
    await this.context.audioWorklet.addModule(new URL('capture_worklet.js', import.meta.url));
    if (this.isStopped) return;
    this.node = new AudioWorkletNode(this.context, 'capture', { numberOfOutputs: 0, processorOptions: { rate: MIC_RATE, samples: CHUNK_SAMPLES } });
    this.node.port.onmessage = ({ data }) => this.onChunk(data);
    this.context.createMediaStreamSource(stream).connect(this.node);
    await this.context.resume();
  }

  onChunk({ samples, level }) {
    if (this.isMuted || this.isStopped) return;
    this.handlers.onLevel(level);
    this.handlers.onChunk(toBase64(new Uint8Array(samples.buffer)));
  }

  /** setMuted stops or continues to listen; the device shows that it is off. */
  setMuted(isMuted) {
    this.isMuted = isMuted;
    this.node?.port.postMessage({ isMuted });
    if (this.track) this.track.enabled = !isMuted;
    if (isMuted) this.handlers.onLevel(0);
  }

  stop() {
    this.isStopped = true;
    stopTracks(this.stream);
    if (this.context && this.context.state !== 'closed') this.context.close();
  }
}

/** A Player plays the audio of answers in order. */
export class Player {
  /** handlers: onPlaying(isPlaying) and onFull() when audio is dropped. */
  constructor(handlers) {
    Object.assign(this, { handlers, rate: 0, isPlaying: false, isStopped: false, early: [] });
  }

  /** start opens the speaker; call it during a click, or browsers keep it silent. */
  async start(rate = ANSWER_RATE) {
    const context = new AudioContext({ sampleRate: rate });
    Object.assign(this, { context, rate, ready: context.audioWorklet.addModule(new URL('playback_worklet.js', import.meta.url)) });
    await this.ready;
    if (this.isStopped || context !== this.context) return;
    this.node = new AudioWorkletNode(context, 'playback', { numberOfInputs: 0, outputChannelCount: [1] });
    this.node.port.onmessage = ({ data }) => this.onReport(data);
    this.node.connect(context.destination);
    for (const samples of this.early.splice(0)) this.post(samples);
    await context.resume();
  }

  post(samples) {
    this.node.port.postMessage(samples, [samples.buffer]);
  }

  onReport({ isPlaying, isFull }) {
    if (isFull) this.handlers.onFull();
    if (isPlaying === undefined) return;
    this.isPlaying = isPlaying;
    this.handlers.onPlaying(isPlaying);
  }

  /** play adds a chunk of audio/pcm; it ignores other types. */
  play({ mimeType, data }) {
    const rate = rateOf(mimeType);
    if (!rate || this.isStopped) return;
    if (rate !== this.rate) this.restart(rate);
    const samples = toSamples(data);
    if (!samples.length) return;
    if (this.node) this.post(samples);
    else if (this.early.length < MAX_EARLY) this.early.push(samples);
  }

  // restart opens the speaker with another rate; what was playing ends.
  restart(rate) {
    this.close();
    this.start(rate).catch(reportError);
  }

  /** clear stops what is playing, and drops what waits. */
  clear() {
    this.early = [];
    this.node?.port.postMessage('clear');
  }

  stop() {
    this.isStopped = true;
    this.close();
  }

  close() {
    this.node = null;
    if (this.context && this.context.state !== 'closed') this.context.close();
  }
}

/** A Camera shows a preview, and delivers one JPEG image per second. */
export class Camera {
  /** handlers: onImage(base64), and onLost() if the device is removed. */
  constructor(video, handlers) {
    Object.assign(this, { video, handlers, canvas: document.createElement('canvas') });
  }

  get mimeType() {
    return 'image/jpeg';
  }

  /** start asks for permission, and throws a MediaError without it. */
  async start() {
    const stream = await openDevice('camera', { video: { width: { ideal: MAX_PIXELS }, height: { ideal: MAX_PIXELS } } });
    if (this.isStopped) return stopTracks(stream);
    this.stream = stream;
    stream.getVideoTracks()[0].addEventListener('ended', () => this.handlers.onLost());
    this.video.srcObject = stream;
    await this.video.play();
    this.timer = setInterval(() => this.capture().catch(reportError), FRAME_MS);
  }

  async capture() {
    const { videoWidth: width, videoHeight: height } = this.video;
    if (!width || !height) return;
    const scale = Math.min(1, MAX_PIXELS / Math.max(width, height));
    Object.assign(this.canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
    this.canvas.getContext('2d').drawImage(this.video, 0, 0, this.canvas.width, this.canvas.height);
    const image = await new Promise((done) => { this.canvas.toBlob(done, this.mimeType, 0.8); });
    if (image && !this.isStopped) this.handlers.onImage(toBase64(new Uint8Array(await image.arrayBuffer())));
  }

  stop() {
    this.isStopped = true;
    clearInterval(this.timer);
    stopTracks(this.stream);
    this.video.srcObject = null;
  }
}

const stopTracks = (stream) => stream?.getTracks().forEach((track) => track.stop());

// openDevice returns the stream of a device, or throws a MediaError.
async function openDevice(device, constraints) {
  if (!window.isSecureContext || !navigator.mediaDevices?.getUserMedia) {
    throw new MediaError(`Browsers allow the ${device} only on secure pages: open this page with https:, or on localhost.`);
  }
  try {
    return await navigator.mediaDevices.getUserMedia(constraints);
  } catch (error) {
    throw new MediaError(explain(error, device));
  }
}

function explain(error, device) {
  if (error.name === 'NotAllowedError') return `Access to the ${device} was denied. Allow it in the browser's settings of this site, then try again.`;
  if (error.name === 'NotFoundError' || error.name === 'OverconstrainedError') return `No ${device} was found. Connect one, then try again.`;
  if (error.name === 'NotReadableError') return `The ${device} cannot be opened: another program may be using it.`;
  return `The ${device} cannot be opened: ${error.message}`;
}
