package conversation

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"agenthost/pkg/runtime"
)

// A Costs adds up cost and tokens for model calls that have a price, including those by agents
// that are called as tools. It is safe for concurrent use.
type Costs struct {
	mu            sync.Mutex
	usd           float64
	input, output int32
	// total has the sums of the conversation, for all model calls.
	total struct {
		usd           float64
		input, output int64
	}
	// began is when the turn began; zero between turns. last is the duration of the last one.
	began time.Time
	last  time.Duration
}

// AddCall adds a model call; see [runtime.Options.Observe].
func (c *Costs) AddCall(m runtime.Measurement) {
	if m.Usage == nil {
		return
	}
	input := m.Usage.PromptTokenCount + m.Usage.ToolUsePromptTokenCount
	output := m.Usage.CandidatesTokenCount + m.Usage.ThoughtsTokenCount
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.usd += m.Cost
	c.total.input += int64(input)
	c.total.output += int64(output)
	if m.Cost == 0 {
		return
	}
	c.usd += m.Cost
	c.input += input
	c.output += output
}

func (c *Costs) beginTurn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began = time.Now()
}

func (c *Costs) endTurn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.began.IsZero() {
		c.last, c.began = time.Since(c.began), time.Time{}
	}
}

// formatDollars formats an amount above 0, in millionths of a dollar.
func formatDollars(usd float64) string {
	return strconv.FormatFloat(math.Max(1, math.Round(usd*1e6))/1e6, 'f', -1, 64)
}

// printCost prints the cost since the last call, if there is any.
func (c *Costs) printCost(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usd > 0 {
		fmt.Fprintf(w, "cost $%s for %d input tokens and %d output tokens\n", formatDollars(c.usd), c.input, c.output)
	}
	c.usd, c.input, c.output = 0, 0, 0
}

// DescribeStatus returns the parts of the status line: the time of the answer, and the tokens and the
// cost of the conversation.
func (c *Costs) DescribeStatus() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	switch {
	case !c.began.IsZero():
		parts = append(parts, "answering "+formatSeconds(time.Since(c.began)), "^C stops")
	case c.last > 0:
		parts = append(parts, "answered in "+formatSeconds(c.last))
	default:
		parts = append(parts, "/help")
	}
	if c.total.input+c.total.output > 0 {
		parts = append(parts, fmt.Sprintf("%s tokens in, %s out", formatThousands(c.total.input), formatThousands(c.total.output)))
	}
	if c.total.usd > 0 {
		parts = append(parts, "$"+formatDollars(c.total.usd))
	}
	return parts
}

func formatSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return d.Round(time.Second).String()
}

// formatThousands formats a number of tokens, from 10 000 on in thousands.
func formatThousands(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatFloat(float64(n)/1000, 'f', 1, 64) + "k"
}
