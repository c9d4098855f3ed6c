// The names of members of classes that nothing else is called by: no property of an object that comes as JSON, of an interface or of the
// browser, and no text. The build may shorten exactly these.
import path from "node:path";
import ts from "typescript";

export function privateNames(folder) {
  folder = path.resolve(folder); // a program names its files so
  const { config } = ts.readConfigFile(path.join(folder, "tsconfig.json"), ts.sys.readFile);
  const { fileNames, options } = ts.parseJsonConfigFileContent({ ...config, include: ["src"] }, ts.sys, folder);
  const program = ts.createProgram(fileNames, options);
  const hidden = new Set(),
    others = new Set(),
    inside = new Set();
  for (const file of program.getSourceFiles()) {
    const own = fileNames.includes(file.fileName);
    const visit = (node) => {
      if (own && ts.isClassDeclaration(node))
        for (const member of membersOf(node)) {
          hidden.add(member.name.text);
          inside.add(member);
        }
      if (isProperty(node) && !inside.has(node) && node.name.text !== undefined) others.add(node.name.text);
      else if (ts.isStringLiteralLike(node) || ts.isTemplateLiteralToken(node)) others.add(node.text);
      ts.forEachChild(node, visit);
    };
    visit(file);
  }
  return [...hidden].filter((name) => !others.has(name));
}

const isProperty = (node) =>
  ts.isClassElement(node) || ts.isTypeElement(node) || ts.isObjectLiteralElement(node) ? !!node.name : false;

const named = (node) => !!node.name && ts.isIdentifier(node.name);

/** The members of a class of ours, which our modules alone see, with those that its constructor declares. */
const membersOf = (node) =>
  node.members.flatMap((member) =>
    ts.isConstructorDeclaration(member)
      ? member.parameters.filter((one) => one.modifiers?.length && named(one))
      : named(member)
        ? [member]
        : [],
  );
