package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

func newWhyCommand(env command.Env) *cobra.Command {
	var f revisionFlags
	var user string
	cmd := f.addJSONFlag(f.SetupCommand(env, &cobra.Command{
		Use:   "why APPDIR SESSION [EVENT]",
		Short: "Explain an event: its agent, instruction and state",
		Long: `Why shows the agent that produced an event and its lines of YAML, the instruction that
its model received, the state keys that were read and who wrote them, and the tools
and callbacks that took part. It uses the session and the revision recorded in the
event, not the current files; facts that are in neither are listed as unknown. EVENT
is an event ID or a prefix of one; the default is the last event.`,
		Args: command.RequireArgs(2, 3),
	}, command.ReadDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		w, err := explainEvent(ctx, st, session.Key{App: loader.AppName(args[0]), User: user, ID: args[1]}, strings.Join(args[2:], ""))
		if err != nil {
			return command.FailWith(err)
		}
		if f.json {
			return env.PrintJSON(w)
		}
		w.printText(env)
		return nil
	}))
	cmd.Flags().StringVar(&user, "user", "user", "user of the session")
	return cmd
}

// explanation describes how an event was produced.
type explanation struct {
	App        string `json:"app"`
	Session    string `json:"session"`
	Event      string `json:"event"`
	Invocation string `json:"invocation"`
	Author     string `json:"author"`
	Revision   string `json:"revision,omitempty"`
	// Description describes the event in words.
	Description string `json:"description"`
	// Agent is the author's definition in the revision.
	Agent *loader.Origin `json:"agent,omitempty"`
	// ModelVersion is the version that the model reported.
	ModelVersion string `json:"modelVersion,omitempty"`
	// Tools are the tools that the event calls or that responded.
	Tools []whyTool `json:"tools"`
	// Instructions are the instructions with resolved placeholders.
	Instructions []whyText `json:"instructions"`
	// Read and Wrote are state keys.
	Read  []*whyKey `json:"read"`
	Wrote []*whyKey `json:"wrote"`
	// Callbacks are the callbacks that can run for such an event.
	Callbacks []loader.OriginPart `json:"callbacks"`
	Unknown   []string            `json:"unknown"`

	// fromTools reports that the event contains tool responses, not model output.
	fromTools bool
}

type whyTool struct {
	Name string `json:"name"`
	// At is empty for tools without a YAML line, such as transfer_to_agent.
	At string `json:"at,omitempty"`
	// CallEvent is the event with the call, if this event has the response.
	CallEvent string `json:"callEvent,omitempty"`
}

type whyText struct {
	Field string `json:"field"`
	At    string `json:"at"`
	Text  string `json:"text"`
}

type whyKey struct {
	Key   string   `json:"key"`
	Value any      `json:"value"`
	At    []string `json:"at,omitempty"`
	// By describes the writer.
	By string `json:"by,omitempty"`
}

// explainEvent collects what the store contains about an event.
func explainEvent(ctx context.Context, st *store.Store, key session.Key, id string) (*explanation, error) {
	h, err := readHistory(ctx, st, key)
	if err != nil {
		return nil, err
	}
	if h.at, err = h.findEvent(id); err != nil {
		return nil, err
	}
	ev := h.events[h.at]
	w := &explanation{
		App: key.App, Session: key.ID, Event: ev.ID, Invocation: ev.InvocationID, Author: ev.Author, Revision: ev.Provenance.Revision, Description: describeEvent(ev), ModelVersion: ev.ModelVersion,
		Tools: []whyTool{}, Instructions: []whyText{}, Read: []*whyKey{}, Wrote: []*whyKey{}, Callbacks: []loader.OriginPart{}, Unknown: []string{},
	}
	if ev.Author != session.UserAuthor {
		if err := w.findAgent(ctx, st, ev.NodeName()); err != nil {
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
func (w *explanation) findAgent(ctx context.Context, st *store.Store, node string) error {
	if w.Revision == "" {
		w.addUnknown("the lines of YAML: the event has no revision")
		return nil
	}
	rev, err := st.Revisions.Get(ctx, w.App, w.Revision)
	if errors.Is(err, session.ErrNotFound) {
		w.addUnknown("the lines of YAML: revision %s is no longer stored", w.Revision)
		return nil
	}
	if err != nil {
		return err
	}
	found := newLoader(nil).Origins(ctx, rev, node)
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
func (w *explanation) addUnknown(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.Unknown, text) {
		w.Unknown = append(w.Unknown, text)
	}
}

func (w *explanation) addTools(h *history, ev *session.Event) {
	for _, c := range ev.Calls() {
		w.Tools = append(w.Tools, whyTool{Name: c.Name, At: w.toolLocation(c.Name)})
	}
	if ev.Author == session.UserAuthor {
		return
	}
	for _, r := range ev.Responses() {
		w.Tools = append(w.Tools, whyTool{Name: r.Name, At: w.toolLocation(r.Name), CallEvent: h.findCall(r.ID)})
	}
}

func (w *explanation) toolLocation(name string) string {
	if t := w.findTool(name); t != nil {
		return t.At
	}
	return ""
}

func (w *explanation) findTool(name string) *loader.OriginPart {
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
func (w *explanation) involvedParts(ev *session.Event) []loader.OriginPart {
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
func (w *explanation) addParts(h *history, parts []loader.OriginPart) {
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

func (w *explanation) addRead(h *history, key loader.OriginKey) {
	if i := slices.IndexFunc(w.Read, func(k *whyKey) bool { return k.Key == key.Key }); i >= 0 {
		if !slices.Contains(w.Read[i].At, key.At) {
			w.Read[i].At = append(w.Read[i].At, key.At)
		}
		return
	}
	k := &whyKey{Key: key.Key, At: []string{key.At}}
	k.Value, k.By = h.valueBefore(key.Key)
	w.Read = append(w.Read, k)
}

// addWrites records the lines that name the keys that the event writes.
func (w *explanation) addWrites(ev *session.Event, parts []loader.OriginPart) {
	for _, key := range slices.Sorted(maps.Keys(ev.Actions.StateDelta)) {
		k := &whyKey{Key: key, Value: ev.Actions.StateDelta[key]}
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
