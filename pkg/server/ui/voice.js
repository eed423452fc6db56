// The live conversation of the chat: microphone, camera, captions and playback.

import { el } from './dom.js';
import { microphoneIcon } from './icons.js';
import { Camera, Microphone, Player } from './media.js';
import { LiveSocket } from './live_socket.js';

const STATES = { connecting: 'Connecting…', live: 'Live', reconnecting: 'Reconnecting…' };
const SILENCE_MS = 8000;
const SILENCE = 0.0005; // a level that no connected microphone stays below

/** A Voice talks with the agent of the selected session. */
export class Voice {
  /**
   * bar is shown while the conversation lasts, button starts and ends it. handlers: begin()
   * resolves to { route, split, onEvent, onLost, onEnd } or null, onNotice(text, cls), onChange().
   * split(event) returns { audio, rest, isCut, isOver }: what to play and what to show, and whether the
   * user or the end of a turn cut the answer. hasCamera offers the camera.
   */
  constructor(bar, button, handlers, { hasCamera = true } = {}) {
    Object.assign(this, { bar, button, handlers, hasCamera, isActive: false });
    button.prepend(microphoneIcon({ 'aria-hidden': 'true' }));
    button.addEventListener('click', () => (this.isActive ? this.stop() : this.start()));
    this.draw();
  }

  /** setDisabled forbids to start. */
  setDisabled(isDisabled) {
    this.button.disabled = isDisabled && !this.isActive;
  }

  draw() {
    const press = (text, act) => el('button', { type: 'button', class: 'quiet', 'aria-pressed': 'false', onclick: act }, text);
    this.status = el('span', { role: 'status' });
    this.clock = el('time', { role: 'timer', 'aria-live': 'off' });
    this.level = el('i');
    this.meter = el('span', { class: 'meter', role: 'meter', 'aria-label': 'Microphone level', 'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': 0 }, this.level);
    this.muteButton = press('Mute', () => this.setMuted(!this.mic?.isMuted));
    this.cameraButton = press('Camera', () => (this.camera ? this.stopCamera() : this.startCamera()));
    this.preview = el('video', { muted: true, playsinline: true, hidden: true, 'aria-label': 'Preview of your camera' });
    this.preview.muted = true;
    this.reason = el('p', { class: 'dim', role: 'status', hidden: true });
    this.bar.replaceChildren(this.preview, el('span', { class: 'facts' }, this.status, this.clock), this.meter,
      el('span', { class: 'controls' }, this.muteButton, this.hasCamera ? this.cameraButton : null), this.reason);
  }

  /** start asks for the microphone, then connects. */
  async start() {
    if (this.isActive) return;
    const attempt = this.attempt = {}; // if it is replaced, what this start still waits for is dropped
    this.setActive(true);
    this.showState('connecting');
    try {
      this.player = new Player({ onPlaying: (isPlaying) => this.bar.toggleAttribute('data-playing', isPlaying), onFull: () => this.handlers.onNotice('Part of the answer is not played: it is longer than ten minutes.') });
      this.mic = new Microphone({ onChunk: (data) => this.sendAudio(data), onLevel: (level) => this.showLevel(level), onLost: () => this.loseMicrophone() });
      await this.mic.start();
      await this.player?.start(); // null if the user ended the conversation meanwhile
      const talk = attempt === this.attempt && await this.handlers.begin();
      if (attempt === this.attempt && talk) this.connect(talk);
    } catch (error) {
      if (attempt !== this.attempt) return;
      this.end(error.message);
    }
  }

  connect(talk) {
    this.talk = talk;
    this.socket = new LiveSocket(talk.route, {
      onState: (state, reason) => talk === this.talk && this.onState(state, reason),
      onEvent: (event) => this.onEvent(event, talk),
      onError: (text) => this.handlers.onNotice(text, 'bad'),
    });
    this.socket.open();
  }

  /** stop ends the conversation. */
  stop() {
    if (this.isActive) this.end('');
  }

  /** silence stops the answer that is playing, and reports whether there was one. */
  silence() {
    const wasPlaying = this.isActive && !!this.player?.isPlaying;
    if (wasPlaying) this.isSilenced = true;
    this.player?.clear();
    return wasPlaying;
  }

  /** send sends text or an answer to a call. */
  send(request) {
    if (!this.socket) throw new Error('Wait until the conversation is connected.');
    this.socket.send(request);
  }

  sendAudio(data) {
    this.socket?.sendMedia(this.mic.mimeType, data);
  }

  // onEvent plays and shows an event. The last ones arrive after the user ended the
  // conversation, and are only shown.
  onEvent(event, talk) {
    const parts = talk.split(event);
    if (talk === this.talk) this.play(parts);
    if (parts.rest) talk.onEvent(parts.rest);
  }

  play({ audio, isCut, isOver }) {
    if (isCut) this.player.clear();
    if (isOver) this.isSilenced = false;
    if (!this.isSilenced) audio.forEach((data) => this.player.play(data));
  }

  onState(state, reason) {
    if (state === 'ended') {
      this.end(reason);
      return;
    }
    if (state === 'live') this.begun ||= performance.now();
    if (state === 'reconnecting') {
      this.player.clear();
      this.talk.onLost();
    }
    this.showState(state, reason);
  }

  // end releases the devices. reason is why the conversation ended, '' if the user ended it.
  end(reason) {
    const { talk, socket } = this;
    Object.assign(this, { attempt: null, talk: null, socket: null });
    socket?.close();
    this.mic?.stop();
    this.player?.stop();
    this.stopCamera();
    Object.assign(this, { mic: null, player: null, begun: 0, isSilenced: false });
    this.setActive(false);
    if (talk || reason) this.handlers.onNotice(reason || 'The live conversation ended.', reason ? 'bad' : 'notice');
    talk?.onEnd();
  }

  setActive(isActive) {
    this.isActive = isActive;
    this.bar.hidden = !isActive;
    this.button.lastChild.textContent = isActive ? 'End' : 'Talk';
    this.bar.removeAttribute('data-playing');
    clearInterval(this.timer);
    if (isActive) {
      this.soundAt = performance.now();
      this.timer = setInterval(() => this.tick(), 1000);
      this.muteButton.setAttribute('aria-pressed', false);
    }
    this.clock.textContent = '';
    this.showLevel(0);
    this.handlers.onChange();
  }

  // Microphone.

  setMuted(isMuted) {
    if (!this.mic) return;
    this.mic.setMuted(isMuted);
    if (isMuted && this.socket?.isOpen) this.socket.send({ audio_stream_end: true });
    this.muteButton.setAttribute('aria-pressed', isMuted);
    this.soundAt = performance.now();
    this.showState(this.state);
  }

  loseMicrophone() {
    this.setMuted(true);
    this.handlers.onNotice('The microphone was disconnected. You can still type.', 'bad');
  }

  showLevel(level) {
    this.peak = Math.max(level, (this.peak ?? 0) * 0.8);
    if (level === 0) this.peak = 0;
    if (level > SILENCE) this.soundAt = performance.now();
    this.level.style.transform = `scaleX(${Math.min(1, Math.sqrt(this.peak))})`;
  }

  tick() {
    if (this.begun) this.clock.textContent = timeText((performance.now() - this.begun) / 1000);
    this.meter.setAttribute('aria-valuenow', Math.round(100 * Math.sqrt(this.peak)));
    this.showState(this.state, this.stateReason);
  }

  showState(state, reason = '') {
    Object.assign(this, { state, stateReason: reason });
    const isMuted = !!this.mic?.isMuted;
    const isSilent = state === 'live' && !isMuted && performance.now() - this.soundAt > SILENCE_MS;
    const text = state === 'live' && isMuted ? 'Muted' : STATES[state];
    const note = reason || (isSilent ? 'The microphone is silent: check that the right one is selected.' : '');
    this.bar.dataset.state = state;
    if (this.status.textContent !== text) this.status.textContent = text;
    this.reason.hidden = !note;
    this.reason.textContent = note;
  }

  // Camera.

  async startCamera() {
    const camera = this.camera = new Camera(this.preview, { onImage: (data) => this.socket?.sendMedia(camera.mimeType, data), onLost: () => this.stopCamera() });
    this.preview.hidden = false;
    this.cameraButton.setAttribute('aria-pressed', true);
    try {
      await camera.start();
    } catch (error) {
      if (camera !== this.camera) return;
      this.stopCamera();
      this.handlers.onNotice(error.message, 'bad');
    }
  }

  stopCamera() {
    this.camera?.stop();
    this.camera = null;
    this.preview.hidden = true;
    this.cameraButton.setAttribute('aria-pressed', false);
  }
}

const timeText = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
