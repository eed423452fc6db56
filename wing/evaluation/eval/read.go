package eval

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/pkg/spec"
)

// The names for ADK's files in an app folder.
const (
	// SetSuffix and TestSuffix end the names of [Set] files.
	SetSuffix  = ".evalset.json"
	TestSuffix = ".test.json"
	// ConfigFile has the criteria for the sets in its folder, a [Config].
	ConfigFile = "test_config.json"
	// HistoryFolder has the results, and ResultSuffix ends a [SetResult] file name.
	HistoryFolder = ".adk/eval_history"
	ResultSuffix  = ".evalset_result.json"
)

// ReadOptions are the values that old eval set forms lack.
type ReadOptions struct {
	// SetID is the set's ID and name; empty for the file name.
	SetID string
	// Session is the initial session for a file with a list of turns. It is an error with any
	// other form.
	Session *SessionInput
	// NewID returns invocation IDs; nil for random UUIDs.
	NewID func() string
	// Now returns the creation time; nil for time.Now.
	Now func() time.Time
}

// ReproducibleOptions returns options with which a file is the same set whenever it is read:
// its turns are numbered, and its cases have no creation time.
func ReproducibleOptions(setID string) *ReadOptions {
	turns := 0
	return &ReadOptions{
		SetID: setID,
		NewID: func() string { turns++; return "turn-" + strconv.Itoa(turns) },
		Now:   func() time.Time { return time.Unix(0, 0) },
	}
}

// ReadSet reads an eval set or a test file: an object as in ADK 1.0 and later, a list of
// cases as before, or a list of turns as in the oldest test files, which is one case. An
// error refers to the form that the file resembles; it is a [spec.Diagnostics] with file,
// line and column.
func ReadSet(file string, src []byte, o *ReadOptions) (*Set, error) {
	src = bytes.TrimPrefix(src, []byte("\uFEFF"))
	if err := checkSyntax(file, src); err != nil {
		return nil, err
	}
	o = o.withDefaults(file)
	if src[nextToken(src, 0)] == '[' {
		return readOldSet(file, src, o)
	}
	s := &Set{}
	if err := Decode(file, src, s); err != nil {
		return nil, err
	}
	if o.Session != nil {
		return nil, newDiagnostic(spec.Pos{File: file}, "an eval set cannot have an initial session file", "move the session to session_input of each case")
	}
	return s, nil
}

func (o *ReadOptions) withDefaults(file string) *ReadOptions {
	filled := ReadOptions{}
	if o != nil {
		filled = *o
	}
	filled.SetID = cmp.Or(filled.SetID, file)
	if filled.NewID == nil {
		filled.NewID = newUUID
	}
	if filled.Now == nil {
		filled.Now = time.Now
	}
	return &filled
}

// newUUID returns a random version 4 UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// validateFields checks what the types cannot express: IDs, and each case's content.
func (s *Set) validateFields() *adkjson.Error {
	if s.ID == "" {
		return &adkjson.Error{Message: "eval_set_id is required"}
	}
	if s.Cases == nil {
		return &adkjson.Error{Message: "eval_cases is required"}
	}
	seen := map[string]bool{}
	for i, c := range s.Cases {
		err := c.validateFields()
		if err == nil && seen[c.ID] {
			err = &adkjson.Error{Message: fmt.Sprintf("eval_id %q appears more than once", c.ID)}
		}
		if err != nil {
			return &adkjson.Error{Path: append([]any{"eval_cases", i}, err.Path...), Message: err.Message}
		}
		seen[c.ID] = true
	}
	return nil
}

func (c *Case) validateFields() *adkjson.Error {
	switch {
	case c.ID == "":
		return &adkjson.Error{Message: "eval_id is required"}
	case c.Conversation == nil && c.Scenario == nil:
		return c.missingConversation()
	case c.Conversation != nil && c.Scenario != nil:
		return &adkjson.Error{Message: "cannot have both conversation and conversation_scenario"}
	case !slices.Contains([]string{"", StateSubset, StateExact}, c.FinalStateMatch):
		return &adkjson.Error{Path: []any{"final_session_state_match"}, Message: fmt.Sprintf("must be SUBSET or EXACT, got %q", c.FinalStateMatch)}
	}
	return nil
}

// missingConversation finds the conversation under a mistyped key, which a case keeps as
// unknown.
func (c *Case) missingConversation() *adkjson.Error {
	for _, key := range slices.Sorted(maps.Keys(c.Extra)) {
		if near := spec.Suggest(key, []string{"conversation", "conversation_scenario"}); near != "" {
			return &adkjson.Error{Path: []any{key}, Message: fmt.Sprintf("unknown key (did you mean %q?)", near)}
		}
	}
	return &adkjson.Error{Message: "conversation or conversation_scenario is required"}
}

// An oldCase is a case in the form before ADK 1.0.
type oldCase struct {
	Name    *string     `json:"name"`
	Data    []*oldTurn  `json:"data"`
	Session *oldSession `json:"initialSession"`
}

type oldTurn struct {
	Query     *string        `json:"query"`
	Reference string         `json:"reference"`
	ToolUse   []*oldToolUse  `json:"expectedToolUse"`
	Responses []*oldResponse `json:"expectedIntermediateAgentResponses"`
}

type oldToolUse struct {
	Name  string         `json:"toolName"`
	Input adkjson.Object `json:"toolInput"`
	// ADK has never read the recorded output, the field keeps it from being unknown.
	Output any `json:"mockToolOutput"`
}

type oldResponse struct {
	Author string `json:"author"`
	Text   string `json:"text"`
}

type oldSession struct {
	State map[string]any `json:"state"`
	App   string         `json:"appName"`
	User  string         `json:"userId"`
}

// ReadSession reads a file with an initial session for a test file in the oldest form,
// or with a session input.
func ReadSession(file string, src []byte) (*SessionInput, error) {
	s := &SessionInput{}
	if err := Decode(file, src, s); err != nil {
		return nil, err
	}
	return s, nil
}

// readOldSet reads a list: turns if its items have turn keys, else cases.
func readOldSet(file string, src []byte, o *ReadOptions) (*Set, error) {
	if isListOfTurns(src) {
		turns := []*oldTurn{}
		if err := decodeOld(file, src, &turns); err != nil {
			return nil, err
		}
		c, err := o.convertTurns(turns)
		if err != nil {
			return nil, errorAt(file, src, err.Path, err.Message)
		}
		c.ID, c.Session = file, o.Session
		return o.newSet([]*Case{c}), nil
	}
	if o.Session != nil {
		return nil, newDiagnostic(spec.Pos{File: file}, "a list of cases cannot have an initial session file", "move the session to initial_session of each case")
	}
	var cases []*oldCase
	if err := decodeOld(file, src, &cases); err != nil {
		return nil, err
	}
	set := o.newSet([]*Case{})
	for i, old := range cases {
		c, err := o.convertCase(old)
		if err != nil {
			return nil, errorAt(file, src, append([]any{i}, err.Path...), err.Message)
		}
		set.Cases = append(set.Cases, c)
	}
	if err := set.validateFields(); err != nil {
		// Without the key eval_cases, the path is the old file's.
		return nil, errorAt(file, src, err.Path[1:], err.Message)
	}
	return set, nil
}

func isListOfTurns(src []byte) bool {
	var items []map[string]json.RawMessage
	if json.Unmarshal(src, &items) != nil {
		return false
	}
	turnKeys := []string{"query", "reference", "expected_tool_use", "expected_intermediate_agent_responses"}
	for _, item := range items {
		for key := range item {
			if key == "name" || key == "data" || key == "initial_session" {
				return false
			}
			if slices.Contains(turnKeys, key) {
				return true
			}
		}
	}
	return false
}

// decodeOld ignores unknown keys, as ADK does, unless one resembles a known key: old files
// have keys that no release reads.
func decodeOld(file string, src []byte, v any) error {
	r := newDecoder(src, true)
	custom := r.ReadCustom
	r.ReadCustom = func(r *adkjson.Decoder, p any) bool {
		switch p.(type) {
		case *oldCase, *oldTurn, *oldToolUse, *oldResponse, *oldSession:
			r.ReadFields(fieldsOf(p), func(key, name []byte) {
				r.Strict = spec.Suggest(string(name), adkjson.FieldNames(p)) != ""
				r.HandleUnknownKey(key, name, p)
				r.Strict = true
			})
			return true
		}
		return custom(r, p)
	}
	r.ReadInto(v)
	if err := r.CheckEnd(); err != nil {
		return errorAt(file, src, err.Path, err.Message)
	}
	return nil
}

func (o *ReadOptions) newSet(cases []*Case) *Set {
	return &Set{ID: o.SetID, Name: o.SetID, Cases: cases, CreationTimestamp: o.nowSeconds()}
}

func (o *ReadOptions) nowSeconds() float64 { return float64(o.Now().UnixMicro()) / 1e6 }

func (o *ReadOptions) convertCase(old *oldCase) (*Case, *adkjson.Error) {
	switch {
	case old.Name == nil:
		return nil, &adkjson.Error{Message: "name is required"}
	case old.Data == nil:
		return nil, &adkjson.Error{Message: "data is required"}
	}
	c, err := o.convertTurns(old.Data)
	if err != nil {
		return nil, &adkjson.Error{Path: append([]any{"data"}, err.Path...), Message: err.Message}
	}
	c.ID = *old.Name
	if s := old.Session; s != nil && (s.App != "" || s.User != "" || len(s.State) > 0) {
		c.Session = &SessionInput{App: s.App, User: s.User, State: s.State}
	}
	return c, nil
}

func (o *ReadOptions) convertTurns(turns []*oldTurn) (*Case, *adkjson.Error) {
	c := &Case{Conversation: []*Invocation{}, CreationTimestamp: o.nowSeconds()}
	for i, t := range turns {
		if t.Query == nil {
			return nil, &adkjson.Error{Path: []any{i}, Message: "query is required"}
		}
		inv := &Invocation{
			ID:                o.NewID(),
			UserContent:       genai.NewContentFromText(*t.Query, genai.RoleUser),
			FinalResponse:     genai.NewContentFromText(t.Reference, genai.RoleModel),
			Intermediate:      &Intermediate{},
			CreationTimestamp: o.nowSeconds(),
		}
		for j, u := range t.ToolUse {
			if u.Name == "" {
				return nil, &adkjson.Error{Path: []any{i, "expected_tool_use", j}, Message: "tool_name is required"}
			}
			inv.Intermediate.ToolUses = append(inv.Intermediate.ToolUses, &genai.FunctionCall{Name: u.Name, Args: u.Input})
		}
		for _, r := range t.Responses {
			inv.Intermediate.Responses = append(inv.Intermediate.Responses, &IntermediateResponse{r.Author, []*genai.Part{{Text: r.Text}}})
		}
		c.Conversation = append(c.Conversation, inv)
	}
	return c, nil
}

// ReadConfig reads a test_config.json.
func ReadConfig(file string, src []byte) (*Config, error) {
	c := &Config{}
	if err := Decode(file, src, c); err != nil {
		return nil, err
	}
	return c, nil
}

// ReadResult reads a result file. Old files are a JSON string that contains JSON.
func ReadResult(file string, src []byte) (*SetResult, error) {
	if err := checkSyntax(file, src); err != nil {
		return nil, err
	}
	if text := ""; bytes.HasPrefix(bytes.TrimSpace(src), []byte(`"`)) && json.Unmarshal(src, &text) == nil {
		src = []byte(text)
	}
	s := &SetResult{}
	if err := Decode(file, src, s); err != nil {
		return nil, err
	}
	return s, nil
}
