// The events of a live conversation. Their chunks have an ID each, unlike those of a
// run: this joins the chunks of a caption or text to one row, which the final event
// completes.

/** isSpoken reports whether an event is a transcript of speech. */
export const isSpoken = (event) => !!(event.inputTranscription || event.outputTranscription);

/** spokenText returns the transcript of an event. */
export const spokenText = (event) => (event.inputTranscription ?? event.outputTranscription)?.text ?? '';

const isAudio = (part) => !!part.inlineData?.mimeType?.startsWith('audio/');

/** splitAudio splits an event for a Voice: its audio is played, not shown. */
export function splitAudio(event) {
  const audio = (event.content?.parts ?? []).filter(isAudio).map((part) => part.inlineData);
  return {
    audio, rest: audio.length ? withoutAudio(event) : event,
    isCut: event.interrupted || (event.partial && event.inputTranscription), isOver: event.turnComplete || event.interrupted,
  };
}

// withoutAudio returns what an event contains besides audio, or null.
function withoutAudio(event) {
  const parts = event.content.parts.filter((part) => !isAudio(part));
  const hasMore = parts.length > 0 || event.inputTranscription || event.outputTranscription || event.interrupted || event.turnComplete;
  return hasMore ? { ...event, content: parts.length ? { ...event.content, parts } : undefined } : null;
}

/** isLive reports whether an event is part of a live conversation. */
export const isLive = (event) => isSpoken(event) || !!event.liveSessionId || !!event.liveSessionResumptionUpdate || !!event.voiceActivity;

/**
 * isControl reports whether an event of a live conversation has nothing to show: the end of a
 * turn, an interruption, token counts, or a handle to resume with.
 */
export function isControl(event) {
  const { stateDelta, artifactDelta, transferToAgent } = event.actions ?? {};
  const hasActions = Object.keys({ ...stateDelta, ...artifactDelta }).length > 0 || transferToAgent;
  const isMarked = isLive(event) || event.turnComplete !== undefined || event.interrupted !== undefined;
  return isMarked && !isSpoken(event) && !event.content?.parts?.length && !event.errorCode && !event.errorMessage && !hasActions;
}

/** LiveRows draws the events of a live conversation into a transcript. */
export class LiveRows {
  constructor(transcript) {
    Object.assign(this, { transcript, open: new Map() });
  }

  /** add draws an event, or the next chunk of a caption or text. */
  add(event) {
    const kind = kindOf(event);
    if (!kind) {
      this.transcript.add(event);
      return;
    }
    const id = this.open.get(kind) ?? event.id;
    if (event.partial) this.open.set(kind, id);
    else this.open.delete(kind);
    this.transcript.add({ ...event, id });
    if (!event.partial) this.transcript.rename(id, event.id);
  }

  /** finish makes the open captions final, after which others begin. */
  finish() {
    this.open.clear();
    this.transcript.finishCaptions();
  }
}

// kindOf names what an event is a chunk of, or '' if it stands for itself.
function kindOf(event) {
  if (event.inputTranscription) return 'input';
  if (event.outputTranscription) return `output ${event.author}`;
  const parts = event.content?.parts ?? [];
  return parts.length && parts.every((p) => typeof p.text === 'string') ? `text ${event.author}` : '';
}
