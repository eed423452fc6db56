package declare_test

import (
	"context"
	"encoding/json"
	"fmt"

	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

type quote struct {
	Product  string `json:"product" doc:"What is bought."`
	Quantity int    `json:"quantity,omitempty" doc:"Quantity; default 1."`
}

type price struct {
	Euro float64 `json:"euro"`
}

func ExampleFunc() {
	t, err := declare.Func("quote", "Returns the price of an item.",
		func(_ context.Context, _ *tool.Call, q quote) (price, error) {
			return price{Euro: 2.5 * float64(max(q.Quantity, 1))}, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	schema, _ := json.MarshalIndent(t.Declaration().ParametersJsonSchema, "", "  ")
	fmt.Println(string(schema))

	res, err := t.Run(context.Background(), &tool.Call{Args: map[string]any{"product": "tea", "quantity": 4.0}})
	fmt.Println(res.Response, err)
	_, err = t.Run(context.Background(), &tool.Call{})
	fmt.Println(err)
	// Output:
	// {
	//   "additionalProperties": false,
	//   "properties": {
	//     "product": {
	//       "description": "What is bought.",
	//       "type": "string"
	//     },
	//     "quantity": {
	//       "description": "Quantity; default 1.",
	//       "type": "integer"
	//     }
	//   },
	//   "required": [
	//     "product"
	//   ],
	//   "type": "object"
	// }
	// map[euro:10] <nil>
	// Invoking `quote()` failed as the following mandatory input parameters are not present:
	// product
	// You could retry calling this tool, but it is IMPORTANT for you to provide all the mandatory parameters.
}
