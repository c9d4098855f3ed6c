// The names of members that TypeScript keeps private to their classes, and that nothing else is called by: no property of an object that comes
// as JSON or belongs to the browser, and no text. The build may shorten exactly these.
import path from "node:path";
import ts from "typescript";

export function privateNames(folder) {
  folder = path.resolve(folder); // a program names its files so
  const { config } = ts.readConfigFile(path.join(folder, "tsconfig.json"), ts.sys.readFile);
  const { fileNames, options } = ts.parseJsonConfigFileContent({ ...config, include: ["src"] }, ts.sys, folder);
  const program = ts.createProgram(fileNames, options);
  const hidden = new Set(),
    others = new Set();
  for (const file of program.getSourceFiles()) {
    const own = fileNames.includes(file.fileName);
    const visit = (node) => {
      if (own && isHidden(node)) hidden.add(node.name.text);
      else if (isProperty(node) && node.name.text !== undefined) others.add(node.name.text);
      else if (ts.isStringLiteralLike(node) || ts.isTemplateLiteralToken(node)) others.add(node.text);
      ts.forEachChild(node, visit);
    };
    visit(file);
  }
  return [...hidden].filter((name) => !others.has(name));
}

const isProperty = (node) =>
  ts.isClassElement(node) || ts.isTypeElement(node) || ts.isObjectLiteralElement(node) ? !!node.name : false;

const isHidden = (node) =>
  (ts.isPropertyDeclaration(node) || ts.isMethodDeclaration(node) || ts.isAccessor(node) || ts.isParameter(node)) &&
  ts.isIdentifier(node.name) &&
  !!node.modifiers?.some(({ kind }) =>
    [ts.SyntaxKind.PrivateKeyword, ts.SyntaxKind.ProtectedKeyword, ts.SyntaxKind.OverrideKeyword].includes(kind),
  );
