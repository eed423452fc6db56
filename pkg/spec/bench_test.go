package spec_test

import (
	"testing"

	"agenthost/pkg/spec"
)

// agentYAML is an agent with fifty lines.
const agentYAML = `# yaml-language-server: $schema=agent.json
agent_class: LlmAgent
name: support
description: Answers, refunds, escalates.
model: gemini-flash-latest
instruction: |
  You answer the questions of {tier} customers.

  Rules:
  - Be short and friendly.
  - Never promise a refund above {limit} euro.
  - Ask for the order number when it is missing.

  Known name: {user:name?}
output_key: answer
include_contents: default
generate_content_config:
  temperature: 0.2
  top_p: 0.9
  max_output_tokens: 1024
  stop_sequences: [END]
  safety_settings:
    - category: HARM_CATEGORY_HARASSMENT
      threshold: BLOCK_ONLY_HIGH
  thinking_config: {include_thoughts: false, thinking_budget: 0}
tools:
  - name: exit_loop
  - http:
      name: create_refund
      description: Create a refund.
      method: POST
      url: "${env:CRM:-http://localhost:8080}/refunds"
      headers: {Authorization: "Bearer ${env:TOKEN:-none}"}
      params: {order_id: string, amount: number, note: "string?"}
      timeout: 5s
      confirm: args.amount > 100
  - http:
      name: get_order
      description: Look an order up.
      method: GET
      url: http://localhost:8080/orders
      params:
        order_id: string
        tags: [string]
        tier: {enum: [free, gold], default: free}
      timeout: 30s
sub_agents:
  - config_path: billing.yaml
  - config_path: technical.yaml
  - config_path: small_talk.yaml
`

type benchTool struct {
	Name string `yaml:"name"`
	HTTP *struct {
		Name        string            `yaml:"name" required:"true"`
		Description string            `yaml:"description"`
		Method      string            `yaml:"method" enum:"GET|POST" default:"GET"`
		URL         spec.Text         `yaml:"url" required:"true"`
		Headers     map[string]string `yaml:"headers"`
		Params      spec.ShortSchema  `yaml:"params"`
		Timeout     spec.Duration     `yaml:"timeout" default:"30s"`
		Confirm     *spec.Expr        `yaml:"confirm"`
	} `yaml:"http"`
}

type benchAgent struct {
	Class       string      `yaml:"agent_class" default:"LlmAgent"`
	Name        string      `yaml:"name" required:"true"`
	Description string      `yaml:"description"`
	Model       string      `yaml:"model"`
	Instruction spec.Text   `yaml:"instruction"`
	OutputKey   string      `yaml:"output_key"`
	Contents    string      `yaml:"include_contents" enum:"default|none"`
	LLM         modelConfig `yaml:",inline"`
	Tools       []benchTool `yaml:"tools"`
	SubAgents   []struct {
		Path string `yaml:"config_path"`
	} `yaml:"sub_agents"`
}

// BenchmarkAgent loads an agent with fifty lines. A thousand must load in well under a second.
func BenchmarkAgent(b *testing.B) {
	src := []byte(agentYAML)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		n, ds := spec.Parse("agent.yaml", src)
		ds = append(ds, spec.Interpolate(n, lookupTestEnv)...)
		var a benchAgent
		if ds = append(ds, spec.Decode(n, &a)...); ds != nil {
			b.Fatal(ds)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	src := []byte(agentYAML)
	b.ReportAllocs()
	for b.Loop() {
		if _, ds := spec.Parse("agent.yaml", src); ds != nil {
			b.Fatal(ds)
		}
	}
}
