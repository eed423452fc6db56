package model

// RunsCode reports whether a model executes its own code if the request's tools include
// code execution: it has a method RunsCode.
func RunsCode(m LLM) bool {
	c, ok := m.(interface{ RunsCode() bool })
	return ok && c.RunsCode()
}
