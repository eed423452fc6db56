package provider

// A GeminiToolRefuser is the config of a model that may refuse requests with tools that run
// inside of Gemini's service, such as google_search: they cannot be left out without changing
// the answer.
type GeminiToolRefuser interface{ RefusesGeminiTools() bool }

// RefusesGeminiTools returns true.
func (c *chatConfig) RefusesGeminiTools() bool { return true }

// RefusesGeminiTools returns true.
func (c *anthropicConfig) RefusesGeminiTools() bool { return true }

// RefusesGeminiTools returns true.
func (c *ollamaConfig) RefusesGeminiTools() bool { return true }

// RefusesGeminiTools reports whether the model is Claude.
func (c *vertexConfig) RefusesGeminiTools() bool { return c.claudeConfig() != nil }

// RefusesGeminiTools reports whether the proxy speaks OpenAI's API for the model.
func (c *apigeeConfig) RefusesGeminiTools() bool {
	name, _ := parseApigeeName(c.Model)
	return name.provider == "openai"
}
