package provider

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"agenthost/internal/baseurl"
	"agenthost/pkg/spec"
)

// A vendor is a service with OpenAI's chat completions API, as data: its addresses, its
// variables, and what it does differently. The prefixes and variables are those of
// LiteLLM (its get_llm_provider_logic.py), because ADK's names of models are LiteLLM's.
type vendor struct {
	prefix string
	// title is the name of the service in errors and in the documentation.
	title string
	// base is the usual address, where {region} is the value of regionVariables. It is
	// empty for services that have an address for each customer, as in example.
	base, example   string
	regionVariables []string
	// baseVariables replace base. path is added to addresses without a path.
	baseVariables []string
	path          string
	// keyVariables hold the key, which is sent in keyHeader; the default is a bearer
	// token.
	keyVariables []string
	keyHeader    string
	// local marks a server that needs no key. Its usual address is this machine, which
	// counts as chosen by the app.
	local bool
	// keyless marks a proxy that adds the key.
	keyless bool
	// names matches the model names that need no prefix.
	names *regexp.Regexp
	// openAI marks services with OpenAI's newer names of settings, at any address.
	openAI bool
	// chat is what the service does differently.
	chat chatDialect
}

// chatVendors returns the services in the order of the documentation, which lists the source
// of each row.
func chatVendors() []*vendor {
	return []*vendor{
		{
			prefix: openAIPrefix, title: "OpenAI", base: openAIURL, baseVariables: []string{"OPENAI_BASE_URL", "OPENAI_API_BASE"},
			keyVariables: []string{"OPENAI_API_KEY"}, names: regexp.MustCompile(`^(gpt-|chatgpt-|o[1-9](-|$))`),
		},
		{
			prefix: "azure", title: "Azure OpenAI", example: "https://RESOURCE.openai.azure.com", baseVariables: []string{"AZURE_API_BASE"},
			path: "/openai/v1", keyVariables: []string{"AZURE_API_KEY", "AZURE_OPENAI_API_KEY"}, keyHeader: "Api-Key", openAI: true,
		},
		{
			prefix: "azure_ai", title: "Azure AI Foundry", example: "https://RESOURCE.services.ai.azure.com", baseVariables: []string{"AZURE_AI_API_BASE"},
			path: "/openai/v1", keyVariables: []string{"AZURE_AI_API_KEY"}, keyHeader: "Api-Key",
		},
		{
			prefix: "groq", title: "Groq", base: "https://api.groq.com/openai/v1",
			baseVariables: []string{"GROQ_API_BASE"}, keyVariables: []string{"GROQ_API_KEY"},
		},
		{
			prefix: "mistral", title: "Mistral", base: "https://api.mistral.ai/v1",
			baseVariables: []string{"MISTRAL_API_BASE"}, keyVariables: []string{"MISTRAL_API_KEY"},
			chat: chatDialect{seed: "random_seed", shortIDs: true, answersTools: true},
		},
		{
			prefix: "deepseek", title: "DeepSeek", base: "https://api.deepseek.com",
			baseVariables: []string{"DEEPSEEK_API_BASE"}, keyVariables: []string{"DEEPSEEK_API_KEY"},
			chat: chatDialect{format: formatObject, effort: effortSwitch, thoughts: thoughtsTools},
		},
		{
			prefix: "together_ai", title: "Together AI", base: "https://api.together.xyz/v1", baseVariables: []string{"TOGETHER_AI_API_BASE"},
			keyVariables: []string{"TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"},
			chat:         chatDialect{topK: true},
		},
		{
			prefix: "fireworks_ai", title: "Fireworks AI", base: "https://api.fireworks.ai/inference/v1", baseVariables: []string{"FIREWORKS_API_BASE"},
			keyVariables: []string{"FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"},
			chat:         chatDialect{topK: true},
		},
		{
			prefix: "openrouter", title: "OpenRouter", base: "https://openrouter.ai/api/v1",
			baseVariables: []string{"OPENROUTER_API_BASE"}, keyVariables: []string{"OPENROUTER_API_KEY"},
			chat: chatDialect{effort: effortOpenRouter, topK: true, thoughts: thoughtsTools, video: true, fileURLs: true},
		},
		{
			prefix: "xai", title: "xAI", base: "https://api.x.ai/v1",
			baseVariables: []string{"XAI_API_BASE"}, keyVariables: []string{"XAI_API_KEY"},
		},
		{
			prefix: "cohere", title: "Cohere", base: "https://api.cohere.ai/compatibility/v1", // COHERE_API_BASE is that of Cohere's own API
			keyVariables: []string{"COHERE_API_KEY", "CO_API_KEY"},
		},
		{
			prefix: "databricks", title: "Databricks", example: "https://WORKSPACE.cloud.databricks.com", baseVariables: []string{"DATABRICKS_API_BASE"},
			path: "/serving-endpoints", keyVariables: []string{"DATABRICKS_API_KEY", "DATABRICKS_TOKEN"},
		},
		{
			prefix: "ai21", title: "AI21", base: "https://api.ai21.com/studio/v1",
			baseVariables: []string{"AI21_API_BASE"}, keyVariables: []string{"AI21_API_KEY"},
			chat: chatDialect{format: formatObject},
		},
		{
			prefix: "bedrock", title: "Amazon Bedrock", base: "https://bedrock-runtime.{region}.amazonaws.com/openai/v1",
			regionVariables: []string{"AWS_REGION", "AWS_REGION_NAME", "AWS_DEFAULT_REGION"}, keyVariables: []string{"AWS_BEARER_TOKEN_BEDROCK"},
		},
		compatibleVendor(),
	}
}

// compatiblePrefix is the prefix of servers that are not in the table.
const compatiblePrefix = "openai_compatible"

// openAIPrefix is the prefix of OpenAI itself.
const openAIPrefix = "openai"

// compatibleVendor returns the service of openai_compatible: without settings it is
// OpenAI.
func compatibleVendor() *vendor {
	return &vendor{
		prefix: compatiblePrefix, title: "OpenAI", base: openAIURL,
		baseVariables: []string{"OPENAI_BASE_URL"}, keyVariables: []string{"OPENAI_API_KEY"},
	}
}

// ollamaName is the name of Ollama in the marks of parts.
const ollamaName = "ollama"

// ollamaVendor returns the service of Ollama's own API.
func ollamaVendor() *vendor {
	return &vendor{
		prefix: ollamaName, title: "Ollama", base: "http://127.0.0.1:11434", baseVariables: []string{"OLLAMA_API_BASE", "OLLAMA_HOST"},
		keyVariables: []string{"OLLAMA_API_KEY"}, local: true,
	}
}

// describeVendor returns the description of the provider in the reference.
func (v *vendor) describeVendor() string {
	switch {
	case v.prefix == compatiblePrefix:
		return "Any server with OpenAI's chat completions API."
	case v.local:
		return v.title + ", by default on this machine."
	}
	return v.title + ", with the key in " + v.keyVariables[0] + "."
}

// A vendorEndpoint is the address and the key of a model of a vendor.
type vendorEndpoint struct {
	base, key setting
	// ownBase is set if the document or a variable chose the address: its server may need
	// no key.
	ownBase bool
	// problem is why there is no address.
	problem string
}

// resolveEndpoint chooses the address and the key. An address of the document gets only
// the document's key, and one of the app's .env no key of the host.
func (v *vendor) resolveEndpoint(vars variables, key, base string) vendorEndpoint {
	e := vendorEndpoint{base: setting{value: v.base}}
	switch own := vars.firstSet(v.baseVariables...); {
	case base != "":
		e.base, e.ownBase = setting{base, true}, v.base != ""
		e.key = setting{key, true}
	case own.value != "":
		e.base, e.ownBase = own, v.base != ""
		e.key = vars.chooseKey(key, own, v.keyVariables...)
	case v.base == "":
		e.problem = fmt.Sprintf("no address for %s: set %s, such as %s, or give the model a base_url under models: in app.yaml",
			v.title, v.baseVariables[0], v.example)
	default:
		e.base.ofApp = v.local
		e.key = vars.chooseKey(key, e.base, v.keyVariables...)
	}
	if e.problem == "" {
		e.base.value, e.problem = v.completeAddress(vars, e.base.value)
	}
	return e
}

// completeAddress inserts the region and adds the usual path.
func (v *vendor) completeAddress(vars variables, base string) (address, problem string) {
	if strings.Contains(base, "{region}") {
		region := vars.firstSet(v.regionVariables...).value
		if !location.MatchString(region) {
			return "", fmt.Sprintf("no region for %s: set %s, such as us-east-1, or give the model a base_url under models: in app.yaml",
				v.title, v.regionVariables[0])
		}
		return strings.ReplaceAll(base, "{region}", region), ""
	}
	base = baseurl.TrimPath(base, "")
	if u, err := url.Parse(base); err == nil && u.Path == "" {
		base = baseurl.Join(base, v.path)
	}
	return base, ""
}

// describeVendorEndpoint returns the endpoint of a config with this key and address.
func describeVendorEndpoint(v *vendor, env Env, key spec.Secret, base spec.Text) Endpoint {
	e := v.resolveEndpoint(newVariables(env.Lookup, env.App), key.Reveal(), base.Value)
	return Endpoint{URL: e.base.value, At: base, OfHost: !e.base.ofApp && !e.key.ofApp, Account: accountOf(e.key.value)}
}

// missingKey returns why a call of the endpoint would have no key, or "".
func (v *vendor) missingKey(e vendorEndpoint) string {
	switch {
	case e.key.value != "" || v.local || v.keyless || e.ownBase || e.problem != "":
		return ""
	case e.base.ofApp:
		return fmt.Sprintf("no key for %s at the app's own address, which does not get the host's key: "+
			"give the model an api_key under models: in app.yaml, such as ${secret:%s}", v.title, v.keyVariables[0])
	}
	return fmt.Sprintf("no key for %s: set %s in the environment or in the app's .env, "+
		"or give the model an api_key or a base_url under models: in app.yaml", v.title, v.keyVariables[0])
}
