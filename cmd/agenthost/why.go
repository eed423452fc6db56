package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

func newWhy(io stdio) *cobra.Command {
	var f revisionFlags
	var user string
	cmd := f.addJSONFlag(f.setupCommand(&cobra.Command{
		Use:   "why APPDIR SESSION [EVENT]",
		Short: "Say what made an event: the lines, the instruction, the state",
		Long: `Why says which agent made an event and by which lines of YAML, what its model was
told, which keys of the state were read and who wrote them, and which tools and
callbacks took part. It reads the session and the revision that the event names,
not the files of now; what neither of them tells is listed as not known. EVENT
is an id or the beginning of one; without it, it is the last event.`,
		Args: requireArgs(2, 3),
	}, requireDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		w, err := explainEvent(ctx, st, session.Key{App: loader.AppName(args[0]), User: user, ID: args[1]}, strings.Join(args[2:], ""))
		if err != nil {
			return failWith(err)
		}
		if f.json {
			return printJSON(io, w)
		}
		w.printText(io)
		return nil
	}))
	cmd.Flags().StringVar(&user, "user", "user", "whose session it is")
	return cmd
}

// explanation is what is known of how an event came about.
type explanation struct {
	App        string `json:"app"`
	Session    string `json:"session"`
	Event      string `json:"event"`
	Invocation string `json:"invocation"`
	Author     string `json:"author"`
	Revision   string `json:"revision,omitempty"`
	// Made says in words what the event is.
	Made string `json:"made"`
	// Agent is what the revision says of the author.
	Agent *loader.Origin `json:"agent,omitempty"`
	// ModelVersion is what the model calls itself.
	ModelVersion string `json:"modelVersion,omitempty"`
	// Tools are those that the event asks for or is the answer of.
	Tools []whyTool `json:"tools"`
	// Instructions is the instruction with its placeholders filled.
	Instructions []whyText `json:"told"`
	// Read and Wrote are keys of the state.
	Read  []*whyKey `json:"read"`
	Wrote []*whyKey `json:"wrote"`
	// Callbacks are those that belong to the moments of such an event.
	Callbacks []loader.OriginPart `json:"callbacks"`
	Unknown   []string            `json:"unknown"`

	// fromTools says that it is the answer of tools, so that no model made it.
	fromTools bool
}

type whyTool struct {
	Name string `json:"name"`
	// At is empty for tools that no line names, such as transfer_to_agent.
	At string `json:"at,omitempty"`
	// CallEvent is the event with the call, where this one has the answer.
	CallEvent string `json:"asked,omitempty"`
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
	// By says who wrote it.
	By string `json:"by,omitempty"`
}

// explainEvent gathers what the store tells of an event.
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
		App: key.App, Session: key.ID, Event: ev.ID, Invocation: ev.InvocationID, Author: ev.Author, Revision: ev.Provenance.Revision, Made: describeEvent(ev), ModelVersion: ev.ModelVersion,
		Tools: []whyTool{}, Instructions: []whyText{}, Read: []*whyKey{}, Wrote: []*whyKey{}, Callbacks: []loader.OriginPart{}, Unknown: []string{},
	}
	if ev.Author != session.UserAuthor {
		if err := w.findAgent(ctx, st); err != nil {
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

// describeEvent says what an event is.
func describeEvent(ev *session.Event) string {
	switch {
	case ev.Provenance.Imported:
		return "imported: a client created the session with it"
	case ev.Actions.RewindBeforeInvocationID != "":
		return "a rewind, which took back the end of the session"
	case ev.Actions.Compaction != nil:
		return "a summary of older events"
	case ev.Author == session.UserAuthor && len(ev.Responses()) > 0:
		return "the user's answer to a call"
	case ev.Author == session.UserAuthor:
		return "what the user said"
	case len(ev.Responses()) > 0:
		return "the answer of tools"
	case len(ev.Calls()) > 0:
		return "calls of tools, which the model asked for"
	case ev.ErrorCode != "":
		return "the failure " + ev.ErrorCode
	case ev.Content == nil:
		return "no words: it only writes state or says where the agent is"
	}
	return "what the agent said"
}

// findAgent finds the lines of the author in the revision of the event.
func (w *explanation) findAgent(ctx context.Context, st *store.Store) error {
	if w.Revision == "" {
		w.addUnknown("which lines made it: the event names no revision")
		return nil
	}
	rev, err := st.Revisions.Get(ctx, w.App, w.Revision)
	if errors.Is(err, session.ErrNotFound) {
		w.addUnknown("which lines made it: revision %s is not kept any more", w.Revision)
		return nil
	}
	if err != nil {
		return err
	}
	found := loader.New(nil).Origins(ctx, rev, w.Author)
	switch len(found) {
	case 0:
		w.addUnknown("which lines made it: the revision has no agent %s", w.Author)
		return nil
	case 1:
	default:
		var places []string
		for _, o := range found {
			places = append(places, o.At)
		}
		w.addUnknown("which of the agents of this name made it: they stand at %s; this is about the first", strings.Join(places, ", "))
	}
	w.Agent = found[0]
	return nil
}

// addUnknown notes what cannot be known.
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

// involvedParts are what of the agent takes part in such an event: its own lines or the
// tools that answered, and the callbacks, which it notes.
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

// addParts says what they read.
func (w *explanation) addParts(h *history, parts []loader.OriginPart) {
	for _, part := range parts {
		for _, key := range part.Reads {
			w.addRead(h, key)
		}
		if part.ReadsAny {
			w.addUnknown("which other keys were read: %s at %s may read any", part.Name, part.At)
		}
	}
	if len(w.Callbacks) > 0 {
		w.addUnknown("which conditions of the callbacks held, and which of them answered: no event says it")
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

// addWrites says which lines name the keys that the event writes.
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
