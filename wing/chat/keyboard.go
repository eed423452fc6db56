package chat

import (
	"bytes"
	"regexp"
	"unicode/utf8"

	uv "github.com/charmbracelet/ultraviolet"

	"agenthost/wing/chat/lineedit"
)

// A keyboard decodes what the terminal sends into keys and pastes. It keeps the beginning of a
// sequence for the next bytes; a bracketed paste becomes one text, however many reads it takes.
type keyboard struct {
	decoder uv.EventDecoder
	pending []byte
	// pasting reports that a paste has begun, and paste is its text so far.
	pasting bool
	paste   []byte
}

// An input is a key or a pasted text.
type input struct {
	// key is the name, such as "ctrl+a", and text the characters that the key inserts.
	key, text string
	// pasted reports that text was pasted; cut that the paste was longer.
	pasted, cut bool
}

var (
	pasteEnd = []byte("\x1b[201~")
	// unfinishedKey matches bytes that may be the beginning of a key.
	unfinishedKey = regexp.MustCompile(`^\x1b(\x1b?(\[[0-9;?<>]{0,32}|O)?)?$`)
)

const maxPasteBytes = 4 * lineedit.MaxRunes

// decodeInputs returns the inputs in chunk. With final, an unfinished sequence is a key: a lone escape.
func (k *keyboard) decodeInputs(chunk []byte, final bool) []input {
	k.pending = append(k.pending, chunk...)
	var found []input
	for len(k.pending) > 0 {
		if k.pasting {
			text, rest, ended := bytes.Cut(k.pending, pasteEnd)
			if !ended { // the end may be cut
				keep := min(len(k.pending), len(pasteEnd)-1)
				text, rest = k.pending[:len(k.pending)-keep], k.pending[len(k.pending)-keep:]
			}
			room := max(0, maxPasteBytes+1-len(k.paste))
			k.paste = append(k.paste, text[:min(room, len(text))]...)
			k.pending = append([]byte(nil), rest...)
			if !ended {
				return found
			}
			cut := len(k.paste) > maxPasteBytes
			found = append(found, input{text: string(bytes.ToValidUTF8(k.paste[:min(len(k.paste), maxPasteBytes)], nil)), pasted: true, cut: cut})
			k.pasting, k.paste = false, nil
			continue
		}
		if !final && (unfinishedKey.Match(k.pending) || !utf8.FullRune(k.pending)) {
			return found
		}
		n, event := k.decoder.Decode(k.pending)
		if n == 0 {
			n = 1
		}
		k.pending = k.pending[n:]
		switch e := event.(type) {
		case uv.KeyPressEvent:
			found = append(found, input{key: uv.Key(e).Keystroke(), text: e.Text})
		case uv.PasteStartEvent:
			k.pasting = true
		}
	}
	return found
}
