package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// A CodeExecutor runs code that a model writes. Many runs use one at once.
type CodeExecutor interface {
	// ExecuteCode runs code, and ends when ctx does. An error is returned to
	// the model, like output on Stderr, and the model may try again. State and
	// actions written to the context are part of the event of the result.
	ExecuteCode(ctx context.Context, m *CallbackContext, code *Code) (*CodeResult, error)
}

// Code is code that a model wrote for execution.
type Code struct {
	Source string
	// ExecutionID is the same for all code of a session when executions are
	// stateful, and empty when each is on its own.
	ExecutionID string
}

// A CodeResult is the result of an execution.
type CodeResult struct {
	Stdout string
	// Stderr, if not empty, marks the execution as failed.
	Stderr string
	// Files are saved as artifacts under their DisplayName.
	Files []*genai.Blob
}

// CodeExecution configures the execution of code that an agent's model writes.
// The zero value uses the model's own sandbox, whose responses contain the
// code and its result. The other fields apply to an Executor only.
type CodeExecution struct {
	Executor CodeExecutor
	// Stateful keeps the interpreter state between executions of a session.
	Stateful bool
	// Attempts is the maximum number of consecutive failures in one
	// invocation; after that, the model's text is its answer. Zero means 2.
	Attempts int
	// Blocks are the delimiters of code in the model's text; the first pair is
	// used to show code to the model. Result are the delimiters of results.
	// Nil and zero mean ADK's.
	Blocks []CodeDelimiters
	Result CodeDelimiters
	// Timeout limits an execution; zero means 30 seconds.
	Timeout time.Duration
	// MaxOutput limits each output that the model sees, in bytes; zero means
	// 64 KiB.
	MaxOutput int
}

// CodeDelimiters enclose code or a result in text.
type CodeDelimiters struct{ Before, After string }

// Defaults of the limits and delimiters; the delimiters and attempts are those
// of adk-python code_executors/base_code_executor.py.
const (
	codeAttempts  = 2
	codeTimeout   = 30 * time.Second
	codeMaxOutput = 64 << 10
)

func defaultCodeBlocks() []CodeDelimiters {
	return []CodeDelimiters{{"```tool_code\n", "\n```"}, {"```python\n", "\n```"}}
}

// withDefaults returns the execution with defaults for unset fields.
func (c *CodeExecution) withDefaults() *CodeExecution {
	if c == nil || c.Executor == nil {
		return c
	}
	s := *c
	if s.Attempts == 0 {
		s.Attempts = codeAttempts
	}
	if len(s.Blocks) == 0 {
		s.Blocks = defaultCodeBlocks()
	}
	if s.Result == (CodeDelimiters{}) {
		s.Result = CodeDelimiters{"```tool_output\n", "\n```"}
	}
	if s.Timeout == 0 {
		s.Timeout = codeTimeout
	}
	if s.MaxOutput == 0 {
		s.MaxOutput = codeMaxOutput
	}
	return &s
}

// withBuiltinTool adds the model's sandbox to the tools of a request.
func (c *CodeExecution) withBuiltinTool(tools []*genai.Tool) []*genai.Tool {
	if c == nil || c.Executor != nil {
		return tools
	}
	return append(slices.Clip(tools), &genai.Tool{CodeExecution: &genai.ToolCodeExecution{}})
}

// hasExecutor reports whether code runs in an executor other than the model's
// own.
func (c *CodeExecution) hasExecutor() bool { return c != nil && c.Executor != nil }

// emitAndRunCode yields a response up to its code, which is not a final
// answer, and then the result of the code.
func (s *step) emitAndRunCode(ctx context.Context, resp *model.Response, content *genai.Content, code string) bool {
	upTo := resp.Clone()
	upTo.Content = content
	return s.emitEvent(s.newModelEvent(upTo), nil) && s.runCode(ctx, code)
}

// runCode runs code and yields the result.
func (s *step) runCode(ctx context.Context, source string) bool {
	ev := s.inv.NewEvent()
	part, err := s.executeCode(ctx, s.inv.newCallbackContext(&ev.Actions), source)
	if err != nil {
		s.emitEvent(nil, err)
		return false
	}
	ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{part}}
	s.last = ev
	return s.emitEvent(ev, nil)
}

// executeCode runs code, saves its files, and returns the result.
func (s *step) executeCode(ctx context.Context, m *CallbackContext, source string) (*genai.Part, error) {
	c := s.agent.opts.Code
	code := &Code{Source: source}
	if c.Stateful {
		code.ExecutionID = m.Session().Key.String()
	}
	result, err := s.executeWithTimeout(ctx, m, code)
	if ctx.Err() != nil {
		return nil, AsRunError(ctx.Err())
	}
	if err == nil {
		err = saveCodeFiles(ctx, m, result.Files)
	}
	if err == nil {
		err = s.checkWrites(m.Actions)
	}
	switch {
	case errors.Is(err, errCodeTimeout):
		return failedCodePart(genai.OutcomeDeadlineExceeded, err.Error()), nil
	case err != nil:
		return failedCodePart(genai.OutcomeFailed, c.truncateOutput(err.Error())), nil
	case result.Stderr != "":
		return failedCodePart(genai.OutcomeFailed, c.truncateOutput(result.Stderr)), nil
	}
	return codeResultPart(c.truncateOutput(result.Stdout), result.Files), nil
}

var errCodeTimeout = errors.New("the code exceeded its timeout of")

// executeWithTimeout runs code within its timeout. A panic is an error of this
// execution and does not stop the host.
func (s *step) executeWithTimeout(ctx context.Context, m *CallbackContext, code *Code) (result *CodeResult, err error) {
	c := s.agent.opts.Code
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	defer func() {
		switch p := recover(); {
		case p != nil:
			s.inv.run.logger().Error("code executor panicked", "agent", s.inv.node.agent.Name(),
				"panic", p, "stack", string(debug.Stack()))
			err = errors.New("the code executor panicked")
		case outer.Err() == nil && ctx.Err() != nil && err != nil:
			err = fmt.Errorf("%w %s", errCodeTimeout, c.Timeout)
		case err == nil && result == nil:
			result = &CodeResult{}
		}
	}()
	return c.Executor.ExecuteCode(ctx, m, code)
}

func saveCodeFiles(ctx context.Context, m *CallbackContext, files []*genai.Blob) error {
	for _, f := range files {
		if _, err := m.Artifacts.Save(ctx, f.DisplayName, &genai.Part{InlineData: f}); err != nil {
			return fmt.Errorf("saving the file %s: %w", f.DisplayName, err)
		}
	}
	return nil
}

// truncateOutput limits an output.
func (c *CodeExecution) truncateOutput(out string) string {
	if len(out) <= c.MaxOutput {
		return out
	}
	n := c.MaxOutput
	for n > 0 && !utf8.RuneStart(out[n]) {
		n--
	}
	return fmt.Sprintf("%s\n[cut off here: %d bytes more]", out[:n], len(out)-n)
}

func failedCodePart(result genai.Outcome, output string) *genai.Part {
	return &genai.Part{CodeExecutionResult: &genai.CodeExecutionResult{Outcome: result, Output: output}}
}

// codeResultPart returns a result in the form of adk-python
// (code_execution_utils.py build_code_execution_result_part).
func codeResultPart(stdout string, files []*genai.Blob) *genai.Part {
	var sections []string
	if stdout != "" || len(files) == 0 {
		sections = append(sections, "Code execution result:\n"+stdout+"\n")
	}
	if len(files) > 0 {
		names := make([]string, len(files))
		for i, f := range files {
			names[i] = "`" + f.DisplayName + "`"
		}
		sections = append(sections, "Saved artifacts:\n"+strings.Join(names, ","))
	}
	return &genai.Part{CodeExecutionResult: &genai.CodeExecutionResult{Outcome: genai.OutcomeOK, Output: strings.Join(sections, "\n\n")}}
}
