// 16-bit audio samples as base64, and as a file that browsers can play.

const BASE64_CHUNK = 0x6000; // a multiple of 3, and few enough arguments for a call

/** toBase64 encodes bytes with the standard alphabet. */
export function toBase64(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; at += BASE64_CHUNK) text += btoa(String.fromCharCode(...bytes.subarray(at, at + BASE64_CHUNK)));
  return text;
}

/** fromBase64 decodes the standard or the URL-safe alphabet. */
export function fromBase64(text) {
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  return Uint8Array.from(binary, (c) => c.charCodeAt(0));
}

/** toSamples decodes little-endian 16-bit samples. */
export function toSamples(base64) {
  const bytes = fromBase64(base64);
  const view = new DataView(bytes.buffer);
  return Int16Array.from({ length: bytes.length >> 1 }, (_, i) => view.getInt16(2 * i, true));
}

/** rateOf returns the sample rate of audio/pcm;rate=N, and 0 for other types. */
export function rateOf(mimeType = '') {
  const [type, ...parameters] = mimeType.toLowerCase().split(';').map((part) => part.trim());
  if (type !== 'audio/pcm' && type !== 'audio/l16') return 0;
  const rate = Number(parameters.find((p) => p.startsWith('rate='))?.slice('rate='.length) ?? 24000);
  return rate >= 8000 && rate <= 96000 ? rate : 0;
}

/** toAudioFile returns audio as a Blob that browsers can play; raw samples get a WAV header. */
export function toAudioFile({ mimeType, data }) {
  const bytes = fromBase64(data);
  const rate = rateOf(mimeType);
  return rate ? new Blob([wavHeader(bytes.length, rate), bytes], { type: 'audio/wav' }) : new Blob([bytes], { type: mimeType });
}

// wavHeader is the header of mono 16-bit samples.
function wavHeader(length, rate) {
  const header = new DataView(new ArrayBuffer(44));
  const write = (at, text) => [...text].forEach((c, i) => header.setUint8(at + i, c.charCodeAt(0)));
  write(0, 'RIFF');
  header.setUint32(4, 36 + length, true);
  write(8, 'WAVEfmt ');
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true); // PCM
  header.setUint16(22, 1, true); // channels
  header.setUint32(24, rate, true);
  header.setUint32(28, 2 * rate, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  write(36, 'data');
  header.setUint32(40, length, true);
  return header.buffer;
}
