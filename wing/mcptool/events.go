package mcptool

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"agenthost/internal/limit"
)

// An eventReader reads a server-sent event stream, and returns it with the messages that a filter
// has repaired. Other events, and events' other fields, stay as they are, and comments are left
// out.
type eventReader struct {
	io.Closer
	lines   *bufio.Reader
	filter  *messageFilter
	request string
	// onlyMessages is set for the older transport, for which the library decodes every event.
	onlyMessages bool
	ready        []byte
	err          error
}

// Read implements [io.Reader].
func (r *eventReader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 && r.err == nil {
		var e *event
		if e, r.err = r.readEvent(); r.err == nil {
			r.ready = r.filterEvent(e)
		}
	}
	if len(r.ready) > 0 {
		n := copy(p, r.ready)
		r.ready = r.ready[n:]
		return n, nil
	}
	return 0, r.err
}

// An event is one stream event: its other fields' lines, and its data.
type event struct {
	fields, data []byte
	name         string
	hasData      bool
	// tooLong is set if only the data's beginning is there.
	tooLong bool
}

// readEvent reads the lines up to an empty one.
func (r *eventReader) readEvent() (*event, error) {
	e, size := &event{name: "message"}, 0
	for {
		line, err := readLine(r.lines)
		if bytes.HasPrefix(line, []byte(":")) {
			continue // a comment; an endless stream may have only comments
		}
		size += len(line) + 1
		e.tooLong = e.tooLong || errors.Is(err, errTooLarge) || size > limit.MCPMessage.Bytes
		if err != nil && !errors.Is(err, errTooLarge) {
			return nil, err // an event without its end is none
		}
		if len(line) == 0 {
			break
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case string(field) == "data" && !e.tooLong:
			if e.hasData {
				e.data = append(e.data, '\n')
			}
			e.data, e.hasData = append(e.data, value...), true
		case string(field) == "data":
			if !e.hasData {
				e.data = append(e.data, value...) // readLine has cut it
			}
			e.data, e.hasData = e.data[:min(len(e.data), maxIDText)], true
		case !e.tooLong:
			if string(field) == "event" {
				e.name = string(value)
			}
			e.fields = append(append(e.fields, line...), '\n')
		}
	}
	return e, nil
}

// repairEvent returns an event's messages.
func (r *eventReader) repairEvent(e *event) []message {
	switch text := bytes.TrimSpace(e.data); {
	case e.name != "message" || !e.hasData || len(text) == 0 && !e.tooLong:
	case e.tooLong:
		return r.filter.rejectResponse(e.data, r.request, errTooLarge.Error())
	default:
		if start := findMessage(text); start >= 0 {
			return r.filter.repairMessages(text[start:], r.request)
		}
		r.filter.logSkipped(text)
	}
	return nil
}

// filterEvent returns an event with repaired messages; a batch becomes several events.
func (r *eventReader) filterEvent(e *event) []byte {
	if e.name == "endpoint" || e.name != "message" && !r.onlyMessages {
		return append(append(append(e.fields, "data: "...), e.data...), "\n\n"...)
	}
	messages := r.repairEvent(e)
	if len(messages) == 0 && r.onlyMessages {
		return nil
	}
	if len(messages) == 0 {
		return append(e.fields, '\n')
	}
	var out []byte
	for _, m := range messages {
		out = append(append(append(append(out, e.fields...), "data: "...), m.encodeText()...), "\n\n"...)
	}
	return out
}
