package evaltest_test

import (
	"testing"

	"agenthost/wing/evaluation/evaltest"
)

func TestDesk(t *testing.T) {
	evaltest.Run(t, "testdata/desk", &evaltest.Options{Sets: []string{"orders"}, Runs: 2})
}
