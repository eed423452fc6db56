package a2aagent

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/genai"

	"agenthost/internal/a2apart"
	"agenthost/internal/terminal"
	"agenthost/pkg/model"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// The bounds on what one answer keeps.
const (
	maxAnswerParts = 1000
	maxArtifacts   = 1000
	maxQuestions   = 32
	maxID          = 512
)

// An answer collects what the server sends about a task.
type answer struct {
	// yield gets partial responses, if it is not nil.
	yield func(*model.Response, error) bool

	task    a2a.TaskID
	context string
	status  a2a.TaskStatus
	// direct is a message that came instead of a task.
	direct    *a2a.Message
	artifacts []*artifact
	parts     int
	actions   map[string]any
	// continued is set until the first event about a task that continues, which may be the task as it waits.
	continued bool
	// before is what the task had when it continued: the conversation has it already.
	before map[a2a.ArtifactID]a2a.ContentParts
}

// An artifact is one that has come in chunks so far.
type artifact struct {
	id    a2a.ArtifactID
	parts a2a.ContentParts
	// text is what has been appended to the last part, which is text: each chunk costs its own length.
	text strings.Builder
}

// addParts appends parts, and returns by how many the artifact has grown. Texts at its end are joined.
func (a *artifact) addParts(parts a2a.ContentParts) int {
	before := len(a.parts)
	for _, p := range parts {
		more, isText := p.Content.(a2a.Text)
		if last := len(a.parts) - 1; isText && last >= 0 && isThought(p) == isThought(a.parts[last]) {
			if _, both := a.parts[last].Content.(a2a.Text); both {
				a.text.WriteString(string(more))
				continue
			}
		}
		a.joinText()
		a.parts = append(a.parts, p)
	}
	return len(a.parts) - before
}

// joinText moves the appended text into the last part.
func (a *artifact) joinText() {
	if a.text.Len() == 0 {
		return
	}
	last := *a.parts[len(a.parts)-1]
	last.Content = last.Content.(a2a.Text) + a2a.Text(a.text.String())
	a.parts[len(a.parts)-1] = &last
	a.text.Reset()
}

// isWorking reports whether the task continues.
func (r *answer) isWorking() bool {
	s := r.status.State
	return r.direct == nil && !s.Terminal() && s != a2a.TaskStateInputRequired && s != a2a.TaskStateAuthRequired
}

// readStream reads events until the task ends or waits. The first event about a task that continues may be
// the task as it waited for the message: the SDK for JavaScript begins each stream with the task.
func (r *answer) readStream(events iter.Seq2[a2a.Event, error]) error {
	var waiting a2a.TaskStatus
	for ev, err := range events {
		if err == nil {
			err = r.readEvent(ev)
		}
		if err != nil {
			return err
		}
		if _, isTask := ev.(*a2a.Task); r.continued && isTask && !r.status.State.Terminal() {
			waiting, r.status = r.status, a2a.TaskStatus{}
		}
		r.continued = false
		if !r.isWorking() {
			return nil
		}
	}
	if r.status.State == a2a.TaskStateUnspecified {
		r.status = waiting
	}
	return nil
}

// continueTask records what a task has written before it continues.
func (r *answer) continueTask(task *a2a.Task) error {
	earlier := &answer{}
	if err := earlier.readEvent(task); err != nil {
		return err
	}
	r.before = map[a2a.ArtifactID]a2a.ContentParts{}
	for _, a := range earlier.artifacts {
		a.joinText()
		r.before[a.id] = a.parts
	}
	return nil
}

// omitEarlier returns an artifact's parts without those that the conversation has. If the artifact was replaced, these
// are all.
func (r *answer) omitEarlier(a *artifact) a2a.ContentParts {
	a.joinText()
	before := r.before[a.id]
	if len(before) > len(a.parts) {
		return a.parts
	}
	for i, p := range before {
		if reflect.DeepEqual(p, a.parts[i]) {
			continue
		}
		old, isText := p.Content.(a2a.Text)
		text, both := a.parts[i].Content.(a2a.Text)
		more, isLonger := strings.CutPrefix(string(text), string(old))
		if i < len(before)-1 || !isText || !both || !isLonger {
			return a.parts
		}
		last := *a.parts[i]
		last.Content = a2a.Text(more)
		return append(a2a.ContentParts{&last}, a.parts[i+1:]...)
	}
	return a.parts[len(before):]
}

// readEvent reads a task, a message or an update.
func (r *answer) readEvent(ev a2a.Event) error {
	if ev == nil {
		return errors.New("the server sent an empty event")
	}
	info := ev.TaskInfo()
	if len(info.TaskID) > maxID || len(info.ContextID) > maxID {
		return fmt.Errorf("the server sent an ID with more than %d bytes", maxID)
	}
	if r.task != "" && info.TaskID != "" && info.TaskID != r.task {
		return errors.New("the server sent an event of another task")
	}
	r.task, r.context = cmp.Or(r.task, info.TaskID), cmp.Or(info.ContextID, r.context)
	switch ev := ev.(type) {
	case *a2a.Message:
		r.direct = ev
		r.readActions(ev.Metadata)
	case *a2a.Task:
		r.status = ev.Status
		r.artifacts, r.parts = nil, 0
		r.readActions(ev.Metadata)
		for _, a := range ev.Artifacts {
			if err := r.addArtifact(a, false); err != nil {
				return err
			}
		}
	case *a2a.TaskStatusUpdateEvent:
		r.status = ev.Status
		r.readActions(ev.Metadata)
		if ev.Status.Message != nil && r.isWorking() {
			return r.yieldParts(ev.Status.Message.Parts, true)
		}
	case *a2a.TaskArtifactUpdateEvent:
		isNew := !slices.ContainsFunc(r.artifacts, func(a *artifact) bool { return ev.Artifact != nil && a.id == ev.Artifact.ID })
		if err := r.addArtifact(ev.Artifact, ev.Append); err != nil {
			return err
		}
		if ev.Append || isNew && !ev.LastChunk {
			return r.yieldParts(ev.Artifact.Parts, false)
		}
	}
	return nil
}

// addArtifact adds an artifact, replaces the one with its ID, or appends to it.
func (r *answer) addArtifact(a *a2a.Artifact, isMore bool) error {
	if a == nil || slices.Contains(a.Parts, nil) {
		return errors.New("the server sent an artifact without content")
	}
	r.readActions(a.Metadata)
	at := slices.IndexFunc(r.artifacts, func(old *artifact) bool { return old.id == a.ID })
	switch {
	case at < 0:
		at, r.artifacts = len(r.artifacts), append(r.artifacts, &artifact{id: a.ID})
	case !isMore:
		r.parts -= len(r.artifacts[at].parts)
		r.artifacts[at] = &artifact{id: a.ID}
	}
	r.parts += r.artifacts[at].addParts(a.Parts)
	if r.parts > maxAnswerParts || len(r.artifacts) > maxArtifacts {
		return fmt.Errorf("the answer has more than %d parts", maxAnswerParts)
	}
	return nil
}

func isThought(p *a2a.Part) bool { return p.Metadata[a2apart.ThoughtKey] == true }

// readActions keeps the actions in ADK's metadata, the latest ones.
func (r *answer) readActions(metadata map[string]any) {
	actions := readMap(metadata["adk_actions"])
	for _, short := range []string{"escalate", "transferToAgent"} {
		if v, ok := metadata["adk_"+short]; ok && actions == nil {
			actions = map[string]any{short: v}
		}
	}
	if len(actions) > 0 {
		r.actions = actions
	}
}

// yieldParts yields the text in parts as a partial response.
func (r *answer) yieldParts(parts a2a.ContentParts, isThought bool) error {
	if r.yield == nil || slices.Contains(parts, nil) {
		return nil
	}
	content := &genai.Content{Role: genai.RoleModel}
	for _, p := range convertParts(parts) {
		if p.Text != "" {
			p.Thought = p.Thought || isThought
			content.Parts = append(content.Parts, p)
		}
	}
	if len(content.Parts) > 0 && !r.yield(&model.Response{Content: content, Partial: true}, nil) {
		return errStopped
	}
	return nil
}

// convertParts returns the parts for an event. Calls and results of the remote agent's own tools are left
// out: nothing here runs or answers them.
func convertParts(parts a2a.ContentParts) []*genai.Part {
	var all []*genai.Part
	for i, p := range parts {
		if p == nil || p.Metadata[a2apart.TypeKey] != nil {
			continue
		}
		part, err := a2apart.ReadPart(fmt.Sprintf("parts[%d]", i), p)
		if err != nil {
			continue // an unreadable file does not lose the answer
		}
		part.Thought = isThought(p)
		all = append(all, part)
	}
	return all
}

// buildResponse returns the response for a task that has ended or waits. contents is the conversation:
// its open questions are not repeated.
func (r *answer) buildResponse(withActions bool, contents []*genai.Content) (*model.Response, error) {
	resp := &model.Response{
		Content: &genai.Content{Role: genai.RoleModel}, FinishReason: genai.FinishReasonStop,
		CustomMetadata: map[string]any{contextKey: r.context},
	}
	if r.task != "" {
		resp.CustomMetadata[taskKey] = string(r.task)
	}
	if withActions && r.actions != nil {
		resp.CustomMetadata[actionsKey] = r.actions
	}
	if r.direct != nil {
		resp.Content.Parts = convertParts(r.direct.Parts)
		return resp, nil
	}
	for _, a := range r.artifacts {
		resp.Content.Parts = append(resp.Content.Parts, convertParts(r.omitEarlier(a))...)
	}
	switch r.status.State {
	case a2a.TaskStateInputRequired, a2a.TaskStateAuthRequired:
		calls, words := r.buildQuestions(contents)
		if resp.Content.Parts = append(resp.Content.Parts, calls...); len(calls) == 0 {
			resp.Content.Parts = append(resp.Content.Parts, genai.NewPartFromText(words))
		}
	case a2a.TaskStateCompleted:
		if len(resp.Content.Parts) == 0 && r.status.Message != nil {
			resp.Content.Parts = convertParts(r.status.Message.Parts)
		}
	default:
		words := "without a reason"
		if r.status.Message != nil {
			words = cmp.Or(joinWords(r.status.Message.Parts), words)
		}
		state := strings.ToLower(strings.TrimPrefix(string(r.status.State), "TASK_STATE_"))
		return nil, fmt.Errorf("the task was %s: %s", cmp.Or(map[string]string{"failed": "ended with an error"}[state], state), words)
	}
	return resp, nil
}

// joinWords returns the texts in parts.
func joinWords(parts a2a.ContentParts) string {
	var words []string
	for _, p := range convertParts(parts) {
		if p.Text != "" {
			words = append(words, p.Text)
		}
	}
	return terminal.Clean(protocol.TruncateText(strings.Join(words, "\n"), 4*maxText))
}

// buildQuestions returns the calls with which a person answers what the task waits for: one for each open
// call of the remote agent, or one for its words.
func (r *answer) buildQuestions(contents []*genai.Content) (calls []*genai.Part, words string) {
	var parts a2a.ContentParts
	if r.status.Message != nil {
		parts = r.status.Message.Parts
	}
	words = cmp.Or(joinWords(parts), "The remote agent needs an input.")
	base := waiting{Task: string(r.task), Context: r.context}
	hasCall := false
	for _, p := range parts {
		if p == nil || p.Metadata[a2apart.TypeKey] != a2apart.TypeCall || len(calls) == maxQuestions {
			continue
		}
		remote := readMap(p.Data())
		id, name := readString(remote, "id"), readString(remote, "name")
		if id == "" || len(id) > maxID || len(name) > maxID {
			continue
		}
		hasCall = true
		w := base
		w.Call, w.Name = id, name
		if !isOpen(contents, w) {
			calls = append(calls, newQuestion(w, words, readMap(remote["args"])))
		}
	}
	if !hasCall {
		calls = append(calls, newQuestion(base, words, nil))
	}
	return calls, words
}

// newQuestion returns the call that asks the user. args are the remote call's.
func newQuestion(w waiting, words string, args map[string]any) *genai.Part {
	payload := map[string]any{"task_id": w.Task, "context_id": w.Context}
	if w.Call != "" {
		payload["call_id"], payload["call_name"] = w.Call, w.Name
	}
	asked := map[string]any{"message": words, "payload": payload}
	// Its own words, because the task's are those of all its questions.
	if q := protocol.NewQuestion(&genai.FunctionCall{ID: w.Call, Name: w.Name, Args: args}); q != nil {
		asked["message"] = q.Text
	}
	switch w.Name {
	case runtime.RequestConfirmation:
		asked["response_schema"] = map[string]any{"type": "string", "enum": []any{"yes", "no"}}
	case tool.RequestInput:
		asked["message"] = cmp.Or(readString(args, "message"), words)
		if schema := readMap(args["response_schema"]); schema != nil {
			asked["response_schema"] = schema
		}
	}
	return &genai.Part{FunctionCall: &genai.FunctionCall{Name: tool.RequestInput, Args: asked}}
}

// readString returns a member that is a short string, or "".
func readString(object map[string]any, key string) string {
	text, _ := object[key].(string)
	return protocol.TruncateText(text, 4*maxText)
}

// isOpen reports whether the conversation has the question without an answer.
func isOpen(contents []*genai.Content, w waiting) bool {
	open := map[string]bool{}
	for _, c := range contents {
		for _, p := range c.Parts {
			switch {
			case p.FunctionCall != nil && readPayload(p.FunctionCall.Args) == w:
				open[p.FunctionCall.ID] = true
			case p.FunctionResponse != nil:
				delete(open, p.FunctionResponse.ID)
			}
		}
	}
	return len(open) > 0
}
