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
	// ExecuteCode runs one piece of code, and ends when ctx does. An error is
	// told to the model, as what the code wrote to its Stderr is: it may try
	// again. What is written to the moment rides on the event of the result.
	ExecuteCode(ctx context.Context, m *CallbackContext, code *Code) (*CodeResult, error)
}

// Code is what a model wants to have run.
type Code struct {
	Source string
	// ExecutionID is the same for all code of a session when executions are
	// stateful, and empty when each is on its own.
	ExecutionID string
}

// A CodeResult is what came of code.
type CodeResult struct {
	Stdout string
	// Stderr makes the execution a failed one, unless it is empty.
	Stderr string
	// Files are saved as artifacts under their DisplayName.
	Files []*genai.Blob
}

// CodeExecution says who runs the code that an agent's model writes, and how.
// The zero value has it run by the model's own sandbox: its answers hold the
// code and what came of it. Other fields matter to an Executor only.
type CodeExecution struct {
	Executor CodeExecutor
	// Stateful says that later code goes on with what earlier code of the
	// session left.
	Stateful bool
	// Attempts is how often in a row code may fail in one invocation; what the
	// model writes then is its answer. Zero is 2.
	Attempts int
	// Blocks are the marks before and behind code in the model's text, the
	// first of which show it to the model; Result are those of what came of it.
	// Nil and zero are ADK's.
	Blocks []CodeDelimiters
	Result CodeDelimiters
	// Timeout bounds an execution; zero is 30 seconds.
	Timeout time.Duration
	// MaxOutput bounds what is told of each output, in bytes; zero is 64 KiB.
	MaxOutput int
}

// CodeDelimiters stand before and behind a piece of text.
type CodeDelimiters struct{ Before, After string }

// The limits and marks of executions that set none (the marks and attempts are
// those of adk-python code_executors/base_code_executor.py).
const (
	codeAttempts  = 2
	codeTimeout   = 30 * time.Second
	codeMaxOutput = 64 << 10
)

func defaultCodeBlocks() []CodeDelimiters {
	return []CodeDelimiters{{"```tool_code\n", "\n```"}, {"```python\n", "\n```"}}
}

// withDefaults is the execution with what it leaves open filled in.
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

// withBuiltinTool adds the model's sandbox to the tools that the model is told of.
func (c *CodeExecution) withBuiltinTool(tools []*genai.Tool) []*genai.Tool {
	if c == nil || c.Executor != nil {
		return tools
	}
	return append(slices.Clip(tools), &genai.Tool{CodeExecution: &genai.ToolCodeExecution{}})
}

// hasExecutor says whether there is an executor that is not the model's own.
func (c *CodeExecution) hasExecutor() bool { return c != nil && c.Executor != nil }

// emitAndRunCode yields an answer up to its code, which is no final answer, and what
// came of the code.
func (s *step) emitAndRunCode(ctx context.Context, resp *model.Response, said *genai.Content, code string) bool {
	upTo := resp.Clone()
	upTo.Content = said
	return s.emitEvent(s.newModelEvent(upTo), nil) && s.runCode(ctx, code)
}

// runCode runs code and yields what came of it.
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

// executeCode runs code, saves its files, and words the result.
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

var errCodeTimeout = errors.New("the code did not end within")

// executeWithTimeout runs code in its time. A panic is the failure of this one
// execution: one bad executor must not take the host down.
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

// truncateOutput bounds an output.
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

func failedCodePart(how genai.Outcome, why string) *genai.Part {
	return &genai.Part{CodeExecutionResult: &genai.CodeExecutionResult{Outcome: how, Output: why}}
}

// codeResultPart tells a result in adk-python's form (code_execution_utils.py
// build_code_execution_result_part).
func codeResultPart(stdout string, files []*genai.Blob) *genai.Part {
	var told []string
	if stdout != "" || len(files) == 0 {
		told = append(told, "Code execution result:\n"+stdout+"\n")
	}
	if len(files) > 0 {
		names := make([]string, len(files))
		for i, f := range files {
			names[i] = "`" + f.DisplayName + "`"
		}
		told = append(told, "Saved artifacts:\n"+strings.Join(names, ","))
	}
	return &genai.Part{CodeExecutionResult: &genai.CodeExecutionResult{Outcome: genai.OutcomeOK, Output: strings.Join(told, "\n\n")}}
}
