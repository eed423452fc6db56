package gemini

import (
	"testing"

	"agenthost/internal/legalrequest/legaltest"
)

func FuzzToolName(f *testing.F) { legaltest.FuzzToolName(f, &geminiRules) }
