package openai

import (
	"regexp"

	"agenthost/internal/modelapi"
)

// A chatVendor is a service with OpenAI's chat completions API, as data. The prefixes and variables
// are LiteLLM's (its get_llm_provider_logic.py), because ADK's model names are LiteLLM's.
type chatVendor struct {
	modelapi.Vendor
	// names matches the model names that need no prefix.
	names *regexp.Regexp
	// openAI marks services with OpenAI's newer setting names, at any address.
	openAI bool
	// chat is what the service does differently.
	chat chatDialect
}

// chatVendors returns the services in the documentation's order. The documentation lists each row's
// source.
func chatVendors() []*chatVendor {
	vendors := []*chatVendor{
		{Vendor: modelapi.Vendor{
			Prefix: openAIPrefix, Title: "OpenAI", Base: openAIURL, BaseVariables: []string{"OPENAI_BASE_URL", "OPENAI_API_BASE"},
			KeyVariables: []string{"OPENAI_API_KEY"},
		}, names: regexp.MustCompile(`^(gpt-|chatgpt-|o[1-9](-|$))`)},
		{Vendor: modelapi.Vendor{
			Prefix: "azure", Title: "Azure OpenAI", Example: "https://RESOURCE.openai.azure.com", BaseVariables: []string{"AZURE_API_BASE"},
			Path: "/openai/v1", KeyVariables: []string{"AZURE_API_KEY", "AZURE_OPENAI_API_KEY"}, KeyHeader: "Api-Key",
		}, openAI: true},
		{Vendor: modelapi.Vendor{
			Prefix: "azure_ai", Title: "Azure AI Foundry", Example: "https://RESOURCE.services.ai.azure.com", BaseVariables: []string{"AZURE_AI_API_BASE"},
			Path: "/openai/v1", KeyVariables: []string{"AZURE_AI_API_KEY"}, KeyHeader: "Api-Key",
		}},
		{Vendor: modelapi.Vendor{
			Prefix: "groq", Title: "Groq", Base: "https://api.groq.com/openai/v1",
			BaseVariables: []string{"GROQ_API_BASE"}, KeyVariables: []string{"GROQ_API_KEY"},
		}},
		{Vendor: modelapi.Vendor{
			Prefix: "mistral", Title: "Mistral", Base: "https://api.mistral.ai/v1",
			BaseVariables: []string{"MISTRAL_API_BASE"}, KeyVariables: []string{"MISTRAL_API_KEY"},
		}, chat: chatDialect{seed: "random_seed", shortIDs: true, answersTools: true}},
		{Vendor: modelapi.Vendor{
			Prefix: "deepseek", Title: "DeepSeek", Base: "https://api.deepseek.com",
			BaseVariables: []string{"DEEPSEEK_API_BASE"}, KeyVariables: []string{"DEEPSEEK_API_KEY"},
		}, chat: chatDialect{format: formatObject, effort: effortSwitch, thoughts: modelapi.ThoughtsTools}},
		{Vendor: modelapi.Vendor{
			Prefix: "together_ai", Title: "Together AI", Base: "https://api.together.xyz/v1", BaseVariables: []string{"TOGETHER_AI_API_BASE"},
			KeyVariables: []string{"TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"},
		}, chat: chatDialect{topK: true}},
		{Vendor: modelapi.Vendor{
			Prefix: "fireworks_ai", Title: "Fireworks AI", Base: "https://api.fireworks.ai/inference/v1", BaseVariables: []string{"FIREWORKS_API_BASE"},
			KeyVariables: []string{"FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"},
		}, chat: chatDialect{topK: true}},
		{Vendor: modelapi.Vendor{
			Prefix: "openrouter", Title: "OpenRouter", Base: "https://openrouter.ai/api/v1",
			BaseVariables: []string{"OPENROUTER_API_BASE"}, KeyVariables: []string{"OPENROUTER_API_KEY"},
		}, chat: chatDialect{effort: effortOpenRouter, topK: true, thoughts: modelapi.ThoughtsTools, video: true, fileURLs: true}},
		{Vendor: modelapi.Vendor{
			Prefix: "xai", Title: "xAI", Base: "https://api.x.ai/v1",
			BaseVariables: []string{"XAI_API_BASE"}, KeyVariables: []string{"XAI_API_KEY"},
		}},
		{Vendor: modelapi.Vendor{
			Prefix: "cohere", Title: "Cohere", Base: "https://api.cohere.ai/compatibility/v1", // COHERE_API_BASE belongs to Cohere's own API
			KeyVariables: []string{"COHERE_API_KEY", "CO_API_KEY"},
		}},
		{Vendor: modelapi.Vendor{
			Prefix: "databricks", Title: "Databricks", Example: "https://WORKSPACE.cloud.databricks.com", BaseVariables: []string{"DATABRICKS_API_BASE"},
			Path: "/serving-endpoints", KeyVariables: []string{"DATABRICKS_API_KEY", "DATABRICKS_TOKEN"},
		}},
		{Vendor: modelapi.Vendor{
			Prefix: "ai21", Title: "AI21", Base: "https://api.ai21.com/studio/v1",
			BaseVariables: []string{"AI21_API_BASE"}, KeyVariables: []string{"AI21_API_KEY"},
		}, chat: chatDialect{format: formatObject}},
		{Vendor: modelapi.Vendor{
			Prefix: "bedrock", Title: "Amazon Bedrock", Base: "https://bedrock-runtime.{region}.amazonaws.com/openai/v1",
			RegionVariables: []string{"AWS_REGION", "AWS_REGION_NAME", "AWS_DEFAULT_REGION"}, KeyVariables: []string{"AWS_BEARER_TOKEN_BEDROCK"},
		}},
		{Vendor: modelapi.Vendor{
			Prefix: "moonshot", Title: "Moonshot AI", Base: "https://api.moonshot.ai/v1",
			BaseVariables: []string{"MOONSHOT_API_BASE"}, KeyVariables: []string{"MOONSHOT_API_KEY"},
		}, chat: chatDialect{thoughts: modelapi.ThoughtsTools}},
	}
	vendors = append(vendors, plainVendors()...)
	return append(append(vendors, ownServers()...), compatibleVendor())
}

// plainVendors returns the services that differ only in their address and key.
func plainVendors() []*chatVendor {
	var vendors []*chatVendor
	for _, v := range [][]string{
		{"perplexity", "Perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_BASE", "PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"},
		{"cerebras", "Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_BASE", "CEREBRAS_API_KEY"},
		{"sambanova", "SambaNova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_BASE", "SAMBANOVA_API_KEY"},
		{"nvidia_nim", "NVIDIA NIM", "https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_BASE", "NVIDIA_NIM_API_KEY"},
		{"deepinfra", "DeepInfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_BASE", "DEEPINFRA_API_KEY"},
		{"dashscope", "Alibaba Cloud Model Studio", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_BASE", "DASHSCOPE_API_KEY"},
	} {
		vendors = append(vendors, &chatVendor{Vendor: modelapi.Vendor{
			Prefix: v[0], Title: v[1], Base: v[2], BaseVariables: v[3:4], KeyVariables: v[4:],
		}})
	}
	return vendors
}

// ownServers returns the servers that people run themselves, mostly without a key. vLLM's usual
// port is also ours, so its address has no default.
func ownServers() []*chatVendor {
	return []*chatVendor{
		{Vendor: modelapi.Vendor{
			Prefix: "hosted_vllm", Title: "vLLM", Example: "http://127.0.0.1:8001/v1", BaseVariables: []string{"HOSTED_VLLM_API_BASE"},
			Path: "/v1", KeyVariables: []string{"HOSTED_VLLM_API_KEY"}, Local: true,
		}},
		{Vendor: modelapi.Vendor{
			Prefix: "lm_studio", Title: "LM Studio", Base: "http://127.0.0.1:1234/v1", BaseVariables: []string{"LM_STUDIO_API_BASE"},
			Path: "/v1", KeyVariables: []string{"LM_STUDIO_API_KEY"}, Local: true,
		}},
		{Vendor: modelapi.Vendor{
			Prefix: "llamafile", Title: "llamafile", Base: "http://127.0.0.1:8080/v1", BaseVariables: []string{"LLAMAFILE_API_BASE"},
			Path: "/v1", KeyVariables: []string{"LLAMAFILE_API_KEY"}, Local: true,
		}},
		{Vendor: modelapi.Vendor{
			Prefix: "litellm_proxy", Title: "LiteLLM's proxy", Example: "http://127.0.0.1:4000", BaseVariables: []string{"LITELLM_PROXY_API_BASE"},
			KeyVariables: []string{"LITELLM_PROXY_API_KEY"}, Local: true,
		}},
	}
}

// compatiblePrefix is the prefix for servers that are not in the table.
const compatiblePrefix = "openai_compatible"

// openAIPrefix is the prefix for OpenAI itself.
const openAIPrefix = "openai"

// compatibleVendor returns the service for openai_compatible: without settings it is OpenAI.
func compatibleVendor() *chatVendor {
	return &chatVendor{Vendor: modelapi.Vendor{
		Prefix: compatiblePrefix, Title: "OpenAI", Base: openAIURL,
		BaseVariables: []string{"OPENAI_BASE_URL"}, KeyVariables: []string{"OPENAI_API_KEY"},
	}}
}

// describeVendor returns the provider's description in the reference.
func (v *chatVendor) describeVendor() string {
	if v.Prefix == compatiblePrefix {
		return "Any server with OpenAI's chat completions API."
	}
	if v.Local {
		return v.Title + ", with the key in " + v.KeyVariables[0] + " if the server needs one."
	}
	return v.Title + ", with the key in " + v.KeyVariables[0] + "."
}

const (
	openAIHost = "api.openai.com"
	openAIURL  = "https://" + openAIHost + "/v1"
)
