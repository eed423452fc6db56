package model

// RunsCode says whether a model carries out code that it writes itself, when
// the request's tools have code execution. A model that does has a method
// RunsCode.
func RunsCode(m LLM) bool {
	c, ok := m.(interface{ RunsCode() bool })
	return ok && c.RunsCode()
}
