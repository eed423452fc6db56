package evaltest_test

import (
	"testing"

	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
	"agenthost/pkg/tool/builtin"
	"agenthost/wing/evaluation/evaltest"
)

var kinds = loader.Kinds{Models: provider.Kinds(), Tools: builtin.Kinds(), Agents: loader.AgentKinds()}

func TestDesk(t *testing.T) {
	evaltest.Run(t, "testdata/desk", &evaltest.Options{Kinds: kinds, Sets: []string{"orders"}, Runs: 2})
}
