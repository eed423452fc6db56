package provider

import "regexp"

// A chatVendor is a service with OpenAI's chat completions API, as data. The prefixes and
// variables are those of LiteLLM (its get_llm_provider_logic.py), because ADK's names of
// models are LiteLLM's.
type chatVendor struct {
	vendor
	// names matches the model names that need no prefix.
	names *regexp.Regexp
	// openAI marks services with OpenAI's newer names of settings, at any address.
	openAI bool
	// chat is what the service does differently.
	chat chatDialect
}

// chatVendors returns the services in the order of the documentation, which lists the source
// of each row.
func chatVendors() []*chatVendor {
	return []*chatVendor{
		{vendor: vendor{
			prefix: openAIPrefix, title: "OpenAI", base: openAIURL, baseVariables: []string{"OPENAI_BASE_URL", "OPENAI_API_BASE"},
			keyVariables: []string{"OPENAI_API_KEY"},
		}, names: regexp.MustCompile(`^(gpt-|chatgpt-|o[1-9](-|$))`)},
		{vendor: vendor{
			prefix: "azure", title: "Azure OpenAI", example: "https://RESOURCE.openai.azure.com", baseVariables: []string{"AZURE_API_BASE"},
			path: "/openai/v1", keyVariables: []string{"AZURE_API_KEY", "AZURE_OPENAI_API_KEY"}, keyHeader: "Api-Key",
		}, openAI: true},
		{vendor: vendor{
			prefix: "azure_ai", title: "Azure AI Foundry", example: "https://RESOURCE.services.ai.azure.com", baseVariables: []string{"AZURE_AI_API_BASE"},
			path: "/openai/v1", keyVariables: []string{"AZURE_AI_API_KEY"}, keyHeader: "Api-Key",
		}},
		{vendor: vendor{
			prefix: "groq", title: "Groq", base: "https://api.groq.com/openai/v1",
			baseVariables: []string{"GROQ_API_BASE"}, keyVariables: []string{"GROQ_API_KEY"},
		}},
		{vendor: vendor{
			prefix: "mistral", title: "Mistral", base: "https://api.mistral.ai/v1",
			baseVariables: []string{"MISTRAL_API_BASE"}, keyVariables: []string{"MISTRAL_API_KEY"},
		}, chat: chatDialect{seed: "random_seed", shortIDs: true, answersTools: true}},
		{vendor: vendor{
			prefix: "deepseek", title: "DeepSeek", base: "https://api.deepseek.com",
			baseVariables: []string{"DEEPSEEK_API_BASE"}, keyVariables: []string{"DEEPSEEK_API_KEY"},
		}, chat: chatDialect{format: formatObject, effort: effortSwitch, thoughts: thoughtsTools}},
		{vendor: vendor{
			prefix: "together_ai", title: "Together AI", base: "https://api.together.xyz/v1", baseVariables: []string{"TOGETHER_AI_API_BASE"},
			keyVariables: []string{"TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"},
		}, chat: chatDialect{topK: true}},
		{vendor: vendor{
			prefix: "fireworks_ai", title: "Fireworks AI", base: "https://api.fireworks.ai/inference/v1", baseVariables: []string{"FIREWORKS_API_BASE"},
			keyVariables: []string{"FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"},
		}, chat: chatDialect{topK: true}},
		{vendor: vendor{
			prefix: "openrouter", title: "OpenRouter", base: "https://openrouter.ai/api/v1",
			baseVariables: []string{"OPENROUTER_API_BASE"}, keyVariables: []string{"OPENROUTER_API_KEY"},
		}, chat: chatDialect{effort: effortOpenRouter, topK: true, thoughts: thoughtsTools, video: true, fileURLs: true}},
		{vendor: vendor{
			prefix: "xai", title: "xAI", base: "https://api.x.ai/v1",
			baseVariables: []string{"XAI_API_BASE"}, keyVariables: []string{"XAI_API_KEY"},
		}},
		{vendor: vendor{
			prefix: "cohere", title: "Cohere", base: "https://api.cohere.ai/compatibility/v1", // COHERE_API_BASE is that of Cohere's own API
			keyVariables: []string{"COHERE_API_KEY", "CO_API_KEY"},
		}},
		{vendor: vendor{
			prefix: "databricks", title: "Databricks", example: "https://WORKSPACE.cloud.databricks.com", baseVariables: []string{"DATABRICKS_API_BASE"},
			path: "/serving-endpoints", keyVariables: []string{"DATABRICKS_API_KEY", "DATABRICKS_TOKEN"},
		}},
		{vendor: vendor{
			prefix: "ai21", title: "AI21", base: "https://api.ai21.com/studio/v1",
			baseVariables: []string{"AI21_API_BASE"}, keyVariables: []string{"AI21_API_KEY"},
		}, chat: chatDialect{format: formatObject}},
		{vendor: vendor{
			prefix: "bedrock", title: "Amazon Bedrock", base: "https://bedrock-runtime.{region}.amazonaws.com/openai/v1",
			regionVariables: []string{"AWS_REGION", "AWS_REGION_NAME", "AWS_DEFAULT_REGION"}, keyVariables: []string{"AWS_BEARER_TOKEN_BEDROCK"},
		}},
		compatibleVendor(),
	}
}

// compatiblePrefix is the prefix of servers that are not in the table.
const compatiblePrefix = "openai_compatible"

// openAIPrefix is the prefix of OpenAI itself.
const openAIPrefix = "openai"

// compatibleVendor returns the service of openai_compatible: without settings it is
// OpenAI.
func compatibleVendor() *chatVendor {
	return &chatVendor{vendor: vendor{
		prefix: compatiblePrefix, title: "OpenAI", base: openAIURL,
		baseVariables: []string{"OPENAI_BASE_URL"}, keyVariables: []string{"OPENAI_API_KEY"},
	}}
}

// describeVendor returns the description of the provider in the reference.
func (v *chatVendor) describeVendor() string {
	if v.prefix == compatiblePrefix {
		return "Any server with OpenAI's chat completions API."
	}
	return v.title + ", with the key in " + v.keyVariables[0] + "."
}
