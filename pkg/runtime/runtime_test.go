package runtime_test

import (
	"testing"

	"go.uber.org/goleak"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTranscripts(t *testing.T) {
	testenv.Transcripts(t, "testdata/transcripts", func() *loader.Options { return nil })
}
