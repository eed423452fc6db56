package loader

import (
	"context"

	"agenthost/pkg/provider"
)

// OpenVertexEvaluator returns the evaluation service of Vertex AI for the metrics that ADK
// leaves to it, with the client and the credentials that Gemini models of the app on Vertex
// AI would have. It is nil without a project, a region or credentials, and if Options.Model
// replaces all models. The caller calls release after the last call of the service.
func (l *Loader) OpenVertexEvaluator(ctx context.Context, dir string) (service *provider.VertexEvaluator, release func(), err error) {
	none := func() {}
	if l.opts.Model != nil {
		return nil, none, nil
	}
	src, ds := l.openAppFolder(dir)
	if src == nil {
		return nil, none, ds.Err()
	}
	defer src.close()
	service, err = provider.NewVertexEvaluator(ctx, &provider.VertexEvaluatorOptions{Lookup: l.opts.Env, App: src.dotenv})
	if service == nil {
		return nil, none, err
	}
	client, end := newResolver(l, src).acquireModelClient(service.Endpoint())
	service.SetHTTP(client)
	return service, func() { _ = end() }, nil
}
