// Package why explains stored events: the agent that produced one and its YAML lines, the
// instruction that its model received, and the state that was read and written. It serves
// explanations to the page for app authors.
package why

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// An Explanation describes how an event was produced.
type Explanation struct {
	App        string `json:"app"`
	Session    string `json:"session"`
	Event      string `json:"event"`
	Invocation string `json:"invocation"`
	Author     string `json:"author"`
	Revision   string `json:"revision,omitempty"`
	// Rollout is the revision's place in a rollout, in words; empty if it has none.
	Rollout string `json:"rollout,omitempty"`
	// Description describes the event in words.
	Description string `json:"description"`
	// Agent is the author's definition in the revision.
	Agent *loader.Origin `json:"agent,omitempty"`
	// ModelVersion is the version that the model reported.
	ModelVersion string `json:"modelVersion,omitempty"`
	// Tools are the tools that the event calls or that responded.
	Tools []ToolUse `json:"tools"`
	// Instructions are the instructions with resolved placeholders.
	Instructions []Instruction `json:"instructions"`
	// Read and Wrote are state keys.
	Read  []*KeyUse `json:"read"`
	Wrote []*KeyUse `json:"wrote"`
	// Callbacks are the callbacks that can run for such an event.
	Callbacks []loader.OriginPart `json:"callbacks"`
	Unknown   []string            `json:"unknown"`

	// fromTools reports that the event contains tool responses, not model output.
	fromTools bool
}

// A ToolUse is a tool that an event calls, or that responded.
type ToolUse struct {
	Name string `json:"name"`
	// At is empty for tools without a YAML line, such as transfer_to_agent.
	At string `json:"at,omitempty"`
	// CallEvent is the event with the call, if this event has the response.
	CallEvent string `json:"callEvent,omitempty"`
	// Edited describes how a person changed the call's arguments before it ran.
	Edited string `json:"edited,omitempty"`
}

// An Instruction is one that a model received.
type Instruction struct {
	Field string `json:"field"`
	At    string `json:"at"`
	Text  string `json:"text"`
}

// A KeyUse is a state key that was read or written.
type KeyUse struct {
	Key   string   `json:"key"`
	Value any      `json:"value"`
	At    []string `json:"at,omitempty"`
	// By describes the writer.
	By string `json:"by,omitempty"`
}

// A Source is what explanations are made from.
type Source struct {
	Store *store.Store
	// Loader reads the revisions that events name.
	Loader *loader.Loader
	// Rollout describes a revision's place in rollouts; nil does not.
	Rollout RolloutFunc
}

// A RolloutFunc describes a revision's place in rollouts, and that of a session whose first event on
// the revision is from the time began. It returns an empty string for a revision without a place.
type RolloutFunc func(ctx context.Context, app, revision string, began time.Time) (string, error)

// Explain collects what the store contains about an event in a session, which id names: its ID,
// a unique prefix of it, or empty for the last event. An unknown or ambiguous id is an
// [*EventError], an unknown session [session.ErrNotFound].
func Explain(ctx context.Context, src *Source, key session.Key, id string) (*Explanation, error) {
	h, err := readHistory(ctx, src.Store, key)
	if err != nil {
		return nil, err
	}
	if h.at, err = h.findEvent(id); err != nil {
		return nil, err
	}
	ev := h.events[h.at]
	w := &Explanation{
		App: key.App, Session: key.ID, Event: ev.ID, Invocation: ev.InvocationID, Author: ev.Author, Revision: ev.Provenance.Revision, Description: describeEvent(ev), ModelVersion: ev.ModelVersion,
		Tools: []ToolUse{}, Instructions: []Instruction{}, Read: []*KeyUse{}, Wrote: []*KeyUse{}, Callbacks: []loader.OriginPart{}, Unknown: []string{},
	}
	if ev.Author != session.UserAuthor {
		if err := w.findAgent(ctx, src, ev.NodeName()); err != nil {
			return nil, err
		}
	}
	if src.Rollout != nil && w.Revision != "" {
		if w.Rollout, err = src.Rollout(ctx, key.App, w.Revision, h.findStart(w.Revision)); err != nil {
			return nil, err
		}
	}
	w.addTools(h, ev)
	w.fromTools = len(ev.Responses()) > 0
	parts := w.involvedParts(ev)
	w.addParts(h, parts)
	w.addWrites(ev, parts)
	if w.Agent != nil && !w.fromTools {
		w.renderInstructions(ctx, h)
	}
	return w, nil
}

// describeEvent returns an event's kind in words.
func describeEvent(ev *session.Event) string {
	switch {
	case ev.Provenance.Imported:
		return "imported: a client created the session with it"
	case ev.Actions.RewindBeforeInvocationID != "":
		return "a rewind of the session"
	case ev.Actions.Compaction != nil:
		return "a summary of older events"
	case ev.Provenance.TaskResult:
		return "the result of a task"
	case ev.Author == session.UserAuthor && len(ev.Responses()) > 0:
		return "the user's answer to a call"
	case ev.Author == session.UserAuthor:
		return "a message of the user"
	case len(ev.Responses()) > 0:
		return "tool responses"
	case len(ev.Calls()) > 0:
		return "tool calls requested by the model"
	case ev.ErrorCode != "":
		return "error " + ev.ErrorCode
	case ev.Content == nil && ev.Output != nil:
		return "the output of a node"
	case ev.Content == nil:
		return "no content, only state or the position of the agent"
	}
	return "a message of the agent"
}

// findAgent finds the agent's or node's definition in the event's revision.
func (w *Explanation) findAgent(ctx context.Context, src *Source, node string) error {
	if w.Revision == "" {
		w.addUnknown("the lines of YAML: the event has no revision")
		return nil
	}
	rev, err := src.Store.Revisions.Get(ctx, w.App, w.Revision)
	if errors.Is(err, session.ErrNotFound) {
		w.addUnknown("the lines of YAML: revision %s is no longer stored", w.Revision)
		return nil
	}
	if err != nil {
		return err
	}
	found := src.Loader.Origins(ctx, rev, node)
	switch len(found) {
	case 0:
		w.addUnknown("the lines of YAML: the revision has no agent %s", node)
		return nil
	case 1:
	default:
		var places []string
		for _, o := range found {
			places = append(places, o.At)
		}
		w.addUnknown("which agent of this name produced it: the candidates are at %s; this shows the first", strings.Join(places, ", "))
	}
	w.Agent = found[0]
	return nil
}

// addUnknown records a fact that cannot be determined.
func (w *Explanation) addUnknown(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.Unknown, text) {
		w.Unknown = append(w.Unknown, text)
	}
}

func (w *Explanation) addTools(h *history, ev *session.Event) {
	for _, c := range ev.Calls() {
		w.Tools = append(w.Tools, ToolUse{Name: c.Name, At: w.toolLocation(c.Name)})
	}
	if ev.Author == session.UserAuthor {
		return
	}
	for _, r := range ev.Responses() {
		w.Tools = append(w.Tools, ToolUse{Name: r.Name, At: w.toolLocation(r.Name), CallEvent: h.findCall(r.ID), Edited: h.describeEdit(ev, r.ID)})
	}
}

func (w *Explanation) toolLocation(name string) string {
	if t := w.findTool(name); t != nil {
		return t.At
	}
	return ""
}

func (w *Explanation) findTool(name string) *loader.OriginPart {
	if w.Agent == nil {
		return nil
	}
	if i := slices.IndexFunc(w.Agent.Tools, func(t loader.OriginPart) bool { return t.Name == name }); i >= 0 {
		return &w.Agent.Tools[i]
	}
	return nil
}

// involvedParts returns the agent's parts that are involved in such an event: its own lines or the
// tools that responded, and the callbacks, which it also records.
func (w *Explanation) involvedParts(ev *session.Event) []loader.OriginPart {
	if w.Agent == nil {
		return nil
	}
	var all []loader.OriginPart
	for _, r := range ev.Responses() {
		if t := w.findTool(r.Name); t != nil {
			all = append(all, *t)
		}
	}
	if !w.fromTools {
		all = append(all, w.Agent.StateUse)
	}
	for _, c := range w.Agent.Callbacks {
		if ofTools := strings.Contains(c.Name, "_tool"); ofTools == w.fromTools {
			w.Callbacks = append(w.Callbacks, c)
		}
	}
	return append(all, w.Callbacks...)
}

// addParts records the keys that the parts read.
func (w *Explanation) addParts(h *history, parts []loader.OriginPart) {
	for _, part := range parts {
		for _, key := range part.Reads {
			w.addRead(h, key)
		}
		if part.ReadsAny {
			w.addUnknown("which other keys were read: %s at %s can read any key", part.Name, part.At)
		}
	}
	if len(w.Callbacks) > 0 {
		w.addUnknown("which callback conditions were true, and which callbacks responded: events do not record it")
	}
}

func (w *Explanation) addRead(h *history, key loader.OriginKey) {
	if i := slices.IndexFunc(w.Read, func(k *KeyUse) bool { return k.Key == key.Key }); i >= 0 {
		if !slices.Contains(w.Read[i].At, key.At) {
			w.Read[i].At = append(w.Read[i].At, key.At)
		}
		return
	}
	k := &KeyUse{Key: key.Key, At: []string{key.At}}
	k.Value, k.By = h.valueBefore(key.Key)
	w.Read = append(w.Read, k)
}

// addWrites records the lines that name the keys that the event writes.
func (w *Explanation) addWrites(ev *session.Event, parts []loader.OriginPart) {
	for _, key := range slices.Sorted(maps.Keys(ev.Actions.StateDelta)) {
		k := &KeyUse{Key: key, Value: ev.Actions.StateDelta[key]}
		for _, part := range parts {
			for _, written := range part.Writes {
				if written.Key == key {
					k.At = append(k.At, written.At)
				}
			}
		}
		w.Wrote = append(w.Wrote, k)
	}
}
