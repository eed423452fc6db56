package ollama

import (
	"testing"

	"agenthost/internal/legalrequest/legaltest"
)

func FuzzToolName(f *testing.F) { legaltest.FuzzToolName(f, &ollamaRules) }
