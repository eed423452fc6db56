-- Drives the language server as a person does, in Neovim 0.7 or newer:
--   cd APP; SERVER=agenthost nvim --headless -u NONE -c "luafile neovim.lua"
-- Each result is a line on stderr.
local function print_line(text) io.stderr:write(text .. "\n") end

local function fail(text)
  print_line("error: " .. text)
  vim.cmd("cquit")
end

local id = vim.lsp.start_client({ name = "agenthost", cmd = { os.getenv("SERVER"), "lsp" }, root_dir = vim.fn.getcwd() })

-- open opens a file and moves the cursor to the n-th match of a word.
local function open(file, word, n)
  vim.cmd("edit " .. file)
  vim.lsp.buf_attach_client(0, id)
  if not vim.wait(20000, function() return vim.lsp.buf_is_attached(0, id) end) then fail(file .. " not attached") end
  vim.fn.cursor(1, 1)
  for _ = 1, n do
    if vim.fn.search("\\V" .. word) == 0 then fail(word .. " not found in " .. file) end
  end
end

-- request sends a request about the cursor and returns its result.
local function request(method, more)
  local params = vim.tbl_extend("force", vim.lsp.util.make_position_params(), more or {})
  local answers, err = vim.lsp.buf_request_sync(0, method, params, 20000)
  local answer = (answers or {})[id] or fail(method .. ": " .. tostring(err))
  if answer.error then return nil, answer.error.message end
  return answer.result
end

local function place(location)
  return vim.fn.fnamemodify(vim.uri_to_fname(location.uri), ":.") .. ":" .. location.range.start.line + 1 .. ":" .. location.range.start.character
end

if not vim.wait(20000, function() return (vim.lsp.get_client_by_id(id) or {}).initialized end) then fail("no server") end

open("prompts/writer.md", "{plan", 1)
vim.fn.search("plan")
for _, l in ipairs(request("textDocument/definition")) do print_line("definition " .. place(l)) end
for _, l in ipairs(request("textDocument/references", { context = { includeDeclaration = true } })) do print_line("reference " .. place(l)) end

-- The command that F2 is mapped to, with its own preparation and its own edits of all files.
vim.lsp.buf.rename("outline")
if not vim.wait(20000, function() return vim.fn.search("outline", "nw") > 0 end) then fail("nothing was renamed") end
vim.cmd("silent wall")
print_line("renamed " .. vim.api.nvim_buf_get_lines(0, 0, 1, false)[1])

open("prompts/writer.md", "other", 1)
local _, refused = request("textDocument/rename", { newName = "more" })
print_line("refused " .. tostring(refused))

open("root_agent.yaml", "desk", 1)
local function print_symbols(symbols, indent)
  for _, s in ipairs(symbols) do
    print_line("symbol " .. indent .. s.name)
    print_symbols(s.children or {}, indent .. "  ")
  end
end
print_symbols(request("textDocument/documentSymbol"), "")
for _, s in ipairs(request("workspace/symbol", { query = "OUTLINE" })) do print_line("workspace symbol " .. s.name .. " " .. place(s.location)) end
vim.cmd("qall!")
