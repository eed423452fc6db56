package loader

import (
	"regexp"
	"strings"
	"sync"

	"agenthost/pkg/spec"
)

// This file leads from other programs' model names to the names here. Programs separate a provider
// from its model by a colon, call the same provider differently, or leave it out. A hint names a
// provider only if the program has it.

// providerAliases maps other programs' provider names to prefixes: those of LangChain, Pydantic AI,
// docker-agent, the Vercel AI SDK and OpenRouter.
func providerAliases() map[string]string {
	return map[string]string{
		"google": "gemini", "google-gla": "gemini", "google_genai": "gemini", "google-genai": "gemini", "googleai": "gemini", "palm": "gemini",
		"google-vertex": "vertex_ai", "google_vertexai": "vertex_ai", "vertexai": "vertex_ai", "vertex": "vertex_ai",
		"claude":       "anthropic",
		"openai-chat":  "openai",
		"azure_openai": "azure", "azure-openai": "azure", "azureopenai": "azure",
		"mistralai": "mistral", "together": "together_ai", "togetherai": "together_ai", "fireworks": "fireworks_ai",
		"grok": "xai", "x-ai": "xai",
		"bedrock_converse": "bedrock", "amazon-bedrock": "bedrock", "amazon_bedrock": "bedrock", "aws": "bedrock",
		"moonshotai": "moonshot", "kimi": "moonshot", "alibaba": "dashscope", "nvidia": "nvidia_nim",
		"vllm": "hosted_vllm", "lmstudio": "lm_studio", "lm-studio": "lm_studio", "litellm": "litellm_proxy",
	}
}

// otherProviders has the hints for prefixes of LiteLLM whose services have another API.
func otherProviders() map[string]string {
	const proxy = "call it through LiteLLM's proxy: write litellm_proxy/%s, and set LITELLM_PROXY_API_BASE"
	hints := map[string]string{
		"huggingface": "declare it under models: in app.yaml: NAME: {provider: openai_compatible, model: ORGANIZATION/MODEL, base_url: https://router.huggingface.co/v1, api_key: \"${secret:HF_TOKEN}\"}",
	}
	for _, name := range []string{
		"sagemaker", "sagemaker_chat", "replicate", "watsonx", "snowflake", "cloudflare", "predibase", "oci", "petals", "nlp_cloud", "aleph_alpha", "baseten", "triton", "github_copilot",
	} {
		hints[name] = proxy
	}
	return hints
}

// A modelFamily matches names without a provider that one provider serves. $1 in the replacement is
// the pattern's first group.
type modelFamily struct {
	pattern               *regexp.Regexp
	provider, replacement string
}

var modelFamilies = sync.OnceValue(func() []modelFamily {
	var families []modelFamily
	for _, f := range [][3]string{
		{`^claude$|^(?:claude-?)?(?:sonnet|opus|haiku)$`, "anthropic", "anthropic/claude-sonnet-4-5"},
		{`^gpt(\d[\w.-]*)$`, "openai", "openai/gpt-$1"},
		// Amazon Bedrock's API like OpenAI's has few models; LiteLLM's proxy calls the others.
		{`^(openai\.gpt-oss[\w.:-]+)$`, "bedrock", "bedrock/$1"},
		{`^((?:us\.|eu\.|apac\.)?(?:anthropic|amazon|meta|mistral|cohere|ai21|deepseek|qwen)\.[\w.:-]+)$`, "litellm_proxy", "litellm_proxy/bedrock/$1"},
		{`^(deepseek-(?:chat|reasoner|coder))$`, "deepseek", "deepseek/$1"},
		{`^((?:mistral|magistral)-(?:large|medium|small))$`, "mistral", "mistral/$1-latest"},
		{`^((?:mistral|magistral|ministral|codestral|devstral|pixtral|open-mistral|open-mixtral)-[\w.-]+)$`, "mistral", "mistral/$1"},
		{`^(grok-[\w.-]+)$`, "xai", "xai/$1"},
		{`^(command-[\w.-]+)$`, "cohere", "cohere/$1"},
		{`^(sonar(?:-[\w-]+)?)$`, "perplexity", "perplexity/$1"},
		{`^((?:kimi|moonshot)-[\w.-]+)$`, "moonshot", "moonshot/$1"},
		{`^(qwen-(?:max|plus|turbo|flash)[\w.-]*)$`, "dashscope", "dashscope/$1"},
		{`^(jamba-[\w.-]+)$`, "ai21", "ai21/$1"},
		// Names with a tag are Ollama's, and so are these families without a size.
		{`^((?:hf\.co/)?[\w.-]+:[\w.-]+)$`, "ollama", "ollama/$1"},
		{`^((?:llama|qwen|phi|mixtral|codellama|tinyllama|granite)[\d.]*)$|^(mistral)$`, "ollama", "ollama/$1$2"},
	} {
		families = append(families, modelFamily{regexp.MustCompile(f[0]), f[1], f[2]})
	}
	return families
})

// findModelName returns the name here for another program's model name, or "".
func (l *Loader) findModelName(name string) string {
	at := strings.IndexAny(name, ":/")
	if at > 0 && at < len(name)-1 {
		prefix, rest := strings.ToLower(name[:at]), name[at+1:]
		if alias, ok := providerAliases()[prefix]; ok {
			prefix = alias
		}
		if _, ok := l.kinds.Models.Lookup(prefix); ok && prefix+"/"+rest != name {
			return prefix + "/" + rest
		}
	}
	for _, f := range modelFamilies() {
		m := f.pattern.FindStringSubmatchIndex(name)
		if _, ok := l.kinds.Models.Lookup(f.provider); ok && m != nil {
			return string(f.pattern.ExpandString(nil, strings.ReplaceAll(strings.ReplaceAll(f.replacement, "$1", "${1}"), "$2", "${2}"), name, m))
		}
	}
	return ""
}

// withModelName adds the hint that names a model as here.
func withModelName(d spec.Diagnostic, written, name string) spec.Diagnostic {
	return d.WithHint("write %s", name).WithProposal(written, name)
}
